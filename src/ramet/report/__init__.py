"""Tables, figures and pages about runs, data and studies."""
