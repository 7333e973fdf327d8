"""Results: measures, statistics and reports, read from run directories."""
