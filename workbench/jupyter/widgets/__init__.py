"""The lab's widgets: Python beside hand-written ES modules. Needs anywidget, and is reached by name only."""
