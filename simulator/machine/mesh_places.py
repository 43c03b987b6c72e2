"""Reads figures that name routers of a mesh: "0,0 0,1" is column 0 of rows 0 and 1."""

from __future__ import annotations

import re

from simulator.errors import MachineError
from simulator.machine.figure_places import figure
from simulator.machine.machine_record import MachineRecord
from simulator.machine.parts import PLACES_FORM

Place = tuple[int, int]

_PLACE = re.compile(r"[0-9]{1,6},[0-9]{1,6}")


def check_places(where: str, text: str) -> None:
    """Raises unless the text is a list of routers; does not check that the mesh has them."""
    if not text.split():
        raise MachineError(f"{where}: it names no router; expected {PLACES_FORM}")
    for each in text.split():
        if not _PLACE.fullmatch(each):
            raise MachineError(f"{where}: {each!r:.60} is no place; expected {PLACES_FORM}")


def places(machine: MachineRecord, name: str) -> list[Place]:
    """The routers that a figure such as "0,0 0,1" names, as (column, row); raises if the mesh lacks one."""
    text = str(figure(machine, name))
    found = list[Place]()
    for each in text.split():
        column, row = map(int, each.split(","))
        if column >= machine.network.mesh_columns or row >= machine.network.mesh_rows:
            raise MachineError(
                f"machine {machine.name!r}: {name} = {text!r}: there is no router {each} in a mesh of "
                f"mesh_columns = {machine.network.mesh_columns} and mesh_rows = {machine.network.mesh_rows}; they are "
                "counted from 0"
            )
        found.append((column, row))
    return found
