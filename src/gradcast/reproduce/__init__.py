"""The published tables and figures, trained again."""
