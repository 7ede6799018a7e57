"""What people see of runs, data and studies."""
