"""Kernels in the scheduled form, written by hand: what the schedule stage is expected to produce."""

from __future__ import annotations

from textwrap import dedent


def _view(shape: str, strides: str, space: str = "") -> str:
    return f"memref<{shape}xf32, strided<[{strides}], offset: ?>{space}>"


def tiled_matmul(
    m: int, n: int, k: int, tile: tuple[int, int, int], *, a_t: bool = False, b_t: bool = False, slots: int = 2
) -> str:
    """`a @ b` with ragged tiles in every dim; `a_t` and `b_t` say that the operand lies transposed in memory."""
    tm, tn, tk = tile
    a_shape, b_shape = ((k, m) if a_t else (m, k)), ((n, k) if b_t else (k, n))
    a_tile, b_tile = ((tk, tm) if a_t else (tm, tk)), ((tn, tk) if b_t else (tk, tn))
    a_arg, b_arg, out = (
        f"memref<{rows}x{columns}xf32, strided<[{columns}, 1]>>" for rows, columns in (a_shape, b_shape, (m, n))
    )
    a_dram, b_dram, c_dram = (_view("?x?", f"{columns}, 1") for columns in (a_shape[1], b_shape[1], n))
    a_pad, b_pad, c_pad = (_view("?x?", f"{columns}, 1", ", 1") for columns in (a_tile[1], b_tile[1], tn))
    a_buffer, b_buffer, c_buffer = (
        f"memref<{slots}x{rows}x{columns}xf32, 1>" for rows, columns in (a_tile, b_tile, (tm, tn))
    )
    a_at, a_size = ("%k, %i", "%kk, %mm") if a_t else ("%i, %k", "%mm, %kk")
    b_at, b_size = ("%j, %k", "%nn, %kk") if b_t else ("%k, %j", "%kk, %nn")
    a_map, b_map = ("k, m" if a_t else "m, k"), ("n, k" if b_t else "k, n")
    return dedent(f"""\
    func.func @matmul(%a: {a_arg}, %b: {b_arg}, %out: {out}) {{
      %c0 = arith.constant 0 : index
      %m = arith.constant {m} : index
      %n = arith.constant {n} : index
      %k_all = arith.constant {k} : index
      %tm = arith.constant {tm} : index
      %tn = arith.constant {tn} : index
      %tk = arith.constant {tk} : index
      %zero = arith.constant 0.0 : f32
      %a_buffer = memref.alloc() {{npu.slots = {slots} : i64}} : {a_buffer}
      %b_buffer = memref.alloc() {{npu.slots = {slots} : i64}} : {b_buffer}
      %c_buffer = memref.alloc() {{npu.slots = {slots} : i64}} : {c_buffer}
      scf.for %i = %c0 to %m step %tm {{
        scf.for %j = %c0 to %n step %tn {{
          %mm = affine.min affine_map<(d0) -> ({tm}, -d0 + {m})>(%i)
          %nn = affine.min affine_map<(d0) -> ({tn}, -d0 + {n})>(%j)
          %cs = affine.apply affine_map<(d0, d1) -> ((d0 floordiv {tm} + d1 floordiv {tn}) mod {slots})>(%i, %j)
          %c = memref.subview %c_buffer[%cs, 0, 0] [1, %mm, %nn] [1, 1, 1] : {c_buffer} to {c_pad}
          linalg.fill ins(%zero : f32) outs(%c : {c_pad})
          scf.for %k = %c0 to %k_all step %tk {{
            %kk = affine.min affine_map<(d0) -> ({tk}, -d0 + {k})>(%k)
            %s = affine.apply affine_map<(d0) -> ((d0 floordiv {tk}) mod {slots})>(%k)
            %a_src = memref.subview %a[{a_at}] [{a_size}] [1, 1] : {a_arg} to {a_dram}
            %b_src = memref.subview %b[{b_at}] [{b_size}] [1, 1] : {b_arg} to {b_dram}
            %at = memref.subview %a_buffer[%s, 0, 0] [1, {a_size}] [1, 1, 1] : {a_buffer} to {a_pad}
            %bt = memref.subview %b_buffer[%s, 0, 0] [1, {b_size}] [1, 1, 1] : {b_buffer} to {b_pad}
            linalg.copy ins(%a_src : {a_dram}) outs(%at : {a_pad})
            linalg.copy ins(%b_src : {b_dram}) outs(%bt : {b_pad})
            linalg.matmul indexing_maps = [affine_map<(m, n, k) -> ({a_map})>, affine_map<(m, n, k) -> ({b_map})>,
                                           affine_map<(m, n, k) -> (m, n)>]
              ins(%at, %bt : {a_pad}, {b_pad}) outs(%c : {c_pad})
          }}
          %dst = memref.subview %out[%i, %j] [%mm, %nn] [1, 1] : {out} to {c_dram}
          linalg.copy ins(%c : {c_pad}) outs(%dst : {c_dram})
        }}
      }}
      memref.dealloc %a_buffer : {a_buffer}
      memref.dealloc %b_buffer : {b_buffer}
      memref.dealloc %c_buffer : {c_buffer}
      return
    }}
    """)


def row_softmax(rows: int, columns: int, tile: int, *, x: str = "", out: str = "") -> str:
    """Softmax over the last dim in tiles of whole rows, two slots each. `x` and `out`: other argument layouts."""
    x = x or f"memref<{rows}x{columns}xf32, strided<[{columns}, 1]>>"
    out = out or f"memref<{rows}x{columns}xf32, strided<[{columns}, 1]>>"
    x_dram, out_dram = (_view(f"?x{columns}", kind.split("[")[1].split("]")[0]) for kind in (x, out))
    buffer, row = f"memref<2x{tile}x{columns}xf32, 1>", f"memref<2x{tile}xf32, 1>"
    pad, pad_row = _view(f"?x{columns}", f"{columns}, 1", ", 1"), _view("?", "1", ", 1")
    full, kept = "affine_map<(r, c) -> (r, c)>", "affine_map<(r, c) -> (r)>"
    reducing = f'{{indexing_maps = [{full}, {kept}], iterator_types = ["parallel", "reduction"]}}'
    mapping = f'{{indexing_maps = [{full}, {kept}, {full}], iterator_types = ["parallel", "parallel"]}}'
    return dedent(f"""\
    func.func @softmax(%x: {x}, %out: {out}) {{
      %c0 = arith.constant 0 : index
      %rows = arith.constant {rows} : index
      %tile = arith.constant {tile} : index
      %zero = arith.constant 0.0 : f32
      %lowest = arith.constant 0xFF800000 : f32
      %buffer = memref.alloc() {{npu.slots = 2 : i64}} : {buffer}
      %maxima = memref.alloc() {{npu.slots = 2 : i64}} : {row}
      %sums = memref.alloc() {{npu.slots = 2 : i64}} : {row}
      scf.for %i = %c0 to %rows step %tile {{
        %n = affine.min affine_map<(d0) -> ({tile}, -d0 + {rows})>(%i)
        %s = affine.apply affine_map<(d0) -> ((d0 floordiv {tile}) mod 2)>(%i)
        %src = memref.subview %x[%i, 0] [%n, {columns}] [1, 1] : {x} to {x_dram}
        %t = memref.subview %buffer[%s, 0, 0] [1, %n, {columns}] [1, 1, 1] : {buffer} to {pad}
        %max = memref.subview %maxima[%s, 0] [1, %n] [1, 1] : {row} to {pad_row}
        %sum = memref.subview %sums[%s, 0] [1, %n] [1, 1] : {row} to {pad_row}
        linalg.copy ins(%src : {x_dram}) outs(%t : {pad})
        linalg.fill ins(%lowest : f32) outs(%max : {pad_row})
        linalg.generic {reducing} ins(%t : {pad}) outs(%max : {pad_row}) {{
        ^bb0(%v: f32, %o: f32):
          %r = arith.maximumf %v, %o : f32
          linalg.yield %r : f32
        }}
        linalg.generic {mapping} ins(%t, %max : {pad}, {pad_row}) outs(%t : {pad}) {{
        ^bb0(%v: f32, %m: f32, %o: f32):
          %d = arith.subf %v, %m : f32
          %e = math.exp %d : f32
          linalg.yield %e : f32
        }}
        linalg.fill ins(%zero : f32) outs(%sum : {pad_row})
        linalg.generic {reducing} ins(%t : {pad}) outs(%sum : {pad_row}) {{
        ^bb0(%v: f32, %o: f32):
          %r = arith.addf %o, %v : f32
          linalg.yield %r : f32
        }}
        linalg.generic {mapping} ins(%t, %sum : {pad}, {pad_row}) outs(%t : {pad}) {{
        ^bb0(%v: f32, %m: f32, %o: f32):
          %q = arith.divf %v, %m : f32
          linalg.yield %q : f32
        }}
        %dst = memref.subview %out[%i, 0] [%n, {columns}] [1, 1] : {out} to {out_dram}
        linalg.copy ins(%t : {pad}) outs(%dst : {out_dram})
      }}
      memref.dealloc %buffer : {buffer}
      memref.dealloc %maxima : {row}
      memref.dealloc %sums : {row}
      return
    }}
    """)


def broadcast_add(rows: int, columns: int, tile: int) -> str:
    """`x + row` with the row loaded once, before the loop."""
    x, row = f"memref<{rows}x{columns}xf32, strided<[{columns}, 1]>>", f"memref<{columns}xf32, strided<[1]>>"
    buffer, row_buffer = f"memref<{tile}x{columns}xf32, 1>", f"memref<{columns}xf32, 1>"
    dram, pad = _view(f"?x{columns}", f"{columns}, 1"), f"memref<?x{columns}xf32, strided<[{columns}, 1]>, 1>"
    full = "affine_map<(r, c) -> (r, c)>"
    return dedent(f"""\
    func.func @add(%x: {x}, %row: {row}, %out: {x}) {{
      %c0 = arith.constant 0 : index
      %rows = arith.constant {rows} : index
      %tile = arith.constant {tile} : index
      %buffer = memref.alloc() : {buffer}
      %row_buffer = memref.alloc() : {row_buffer}
      linalg.copy ins(%row : {row}) outs(%row_buffer : {row_buffer})
      scf.for %i = %c0 to %rows step %tile {{
        %n = affine.min affine_map<(d0) -> ({tile}, -d0 + {rows})>(%i)
        %src = memref.subview %x[%i, 0] [%n, {columns}] [1, 1] : {x} to {dram}
        %t = memref.subview %buffer[0, 0] [%n, {columns}] [1, 1] : {buffer} to {pad}
        linalg.copy ins(%src : {dram}) outs(%t : {pad})
        linalg.generic {{indexing_maps = [{full}, affine_map<(r, c) -> (c)>, {full}],
                         iterator_types = ["parallel", "parallel"]}}
          ins(%t, %row_buffer : {pad}, {row_buffer}) outs(%t : {pad}) {{
        ^bb0(%v: f32, %w: f32, %o: f32):
          %r = arith.addf %v, %w : f32
          linalg.yield %r : f32
        }}
        %dst = memref.subview %out[%i, 0] [%n, {columns}] [1, 1] : {x} to {dram}
        linalg.copy ins(%t : {pad}) outs(%dst : {dram})
      }}
      memref.dealloc %buffer : {buffer}
      memref.dealloc %row_buffer : {row_buffer}
      return
    }}
    """)
