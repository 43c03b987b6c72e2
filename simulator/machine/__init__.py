"""What a machine is: its figures, its cores, chiplets and links, its memory, and the files of all these."""
