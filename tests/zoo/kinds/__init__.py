"""The networks of the zoo, by what is special about them."""
