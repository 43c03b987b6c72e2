"""The stages of a journey: which there are, what each is made from, and what a journey was asked for."""
