"""`ramet try`: check that Ramet's promises hold for a method."""
