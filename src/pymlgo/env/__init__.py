"""gymnasium environments over real compiles."""
