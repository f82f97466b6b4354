"""Planned modules written by hand, small enough to see what each step does."""

VECTOR = '!plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>'

KERNELS = """
tile.kernel @double attributes {symbols = ["n"], grid = ["ceildiv(n, 16)"], access = ["read", "write"]} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>, %n: index):
  %p = tile.program_id {dim = 0 : i64}
  %c16 = arith.constant 16 : index
  %at = arith.muli %p, %c16 : index
  %v = tile.load %x[%at] {shape = array<i64: 16>} : memref<?xf32> [index] -> vector<16xf32>
  %d = arith.addf %v, %v : vector<16xf32>
  tile.store %d, %y[%at] {shape = array<i64: 16>} : vector<16xf32>, memref<?xf32> [index]
  tile.return
}
tile.kernel @add attributes {symbols = ["n", "workers"], grid = ["workers"], access = ["read", "read", "write"]} {
^bb0(%x: memref<?xf32>, %w: memref<?xf32>, %y: memref<?xf32>, %n: index, %workers: index):
  %p = tile.program_id {dim = 0 : i64}
  scf.for %i = %p to %n step %workers {
    %a = tile.load %x[%i] {shape = array<i64: 1>} : memref<?xf32> [index] -> f32
    %b = tile.load %w[%i] {shape = array<i64: 1>} : memref<?xf32> [index] -> f32
    %c = arith.addf %a, %b : f32
    tile.store %c, %y[%i] {shape = array<i64: 1>} : f32, memref<?xf32> [index]
  }
  tile.return
}
tile.kernel @small attributes {symbols = ["n"], grid = ["n", "2", "3"], access = ["read", "update"]} {
^bb0(%x: memref<?xf32>, %y: memref<?x6xf32>, %n: index):
  %i = tile.program_id {dim = 0 : i64}
  %j = tile.program_id {dim = 1 : i64}
  %k = tile.program_id {dim = 2 : i64}
  %c3 = arith.constant 3 : index
  %row = arith.muli %j, %c3 : index
  %at = arith.addi %row, %k : index
  %v = tile.load %x[%i] {shape = array<i64: 1>} : memref<?xf32> [index] -> f32
  %old = tile.load %y[%i, %at] {shape = array<i64: 1, 1>} : memref<?x6xf32> [index, index] -> f32
  %f = tile.cast %at : (index) -> f32
  %s = math.fma %v, %f, %old : f32
  tile.store %s, %y[%i, %at] {shape = array<i64: 1, 1>} : f32, memref<?x6xf32> [index, index]
  tile.return
}
tile.kernel @positive attributes {symbols = ["n"], grid = ["n"], access = ["read"]} {
^bb0(%x: memref<?xf32>, %n: index):
  %i = tile.program_id {dim = 0 : i64}
  %zero = arith.constant 0.0 : f32
  %v = tile.load %x[%i] {shape = array<i64: 1>} : memref<?xf32> [index] -> f32
  %ok = tile.compare %v, %zero {kind = "ge"} : (f32, f32) -> i1
  tile.check %ok {node = "/embed/Gather"} : i1
  tile.return
}
tile.kernel @sum attributes {symbols = ["n", "rounds"], grid = ["n"], access = ["read", "write"]} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>, %n: index, %rounds: index):
  %i = tile.program_id {dim = 0 : i64}
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %s = scf.for %r = %c0 to %rounds step %c1 iter_args(%t = %zero) -> (f32) {
    %a = tile.load %x[%i] {shape = array<i64: 1>} : memref<?xf32> [index] -> f32
    %u = arith.addf %t, %a : f32
    scf.yield %u : f32
  }
  tile.store %s, %y[%i] {shape = array<i64: 1>} : f32, memref<?xf32> [index]
  tile.return
}
"""

STEPS = f"""
{KERNELS}
func.func @prepare(%w: tensor<1000xf32> {{lamina.weight = "w"}}) -> (tensor<1000xf32> {{lamina.packed = "w2"}}) {{
  %w2 = nn.add %w, %w : tensor<1000xf32>
  func.return %w2 : tensor<1000xf32>
}}
func.func @forward(
  %x: {VECTOR} {{lamina.input = "x"}},
  %s: !plan.buffer<tensor<?x6xf32, #nn.dims<["T"]>>> {{lamina.state = "s"}},
  %w: !plan.buffer<tensor<1000xf32>> {{lamina.packed = "w2"}},
  %y: {VECTOR} {{lamina.output = "y"}},
  %z: {VECTOR} {{lamina.output = "z"}}
) {{
  %arena = plan.arena : !plan.buffer<tensor<?xi8, #nn.dims<["128*ceildiv(4*T, 64)"]>>>
  %a = plan.view %arena {{offset = "0"}} : !plan.buffer<tensor<?xi8, #nn.dims<["128*ceildiv(4*T, 64)"]>>> to {VECTOR}
  %b = plan.view %arena {{offset = "64*ceildiv(4*T, 64)"}} : !plan.buffer<tensor<?xi8, #nn.dims<["128*ceildiv(4*T, 64)"]>>> to {VECTOR}
  plan.launch {{
    plan.call @double(%x, %a) {{symbols = ["T"]}} : {VECTOR}, {VECTOR}
    plan.call @small(%x, %s) {{symbols = ["T"]}} : {VECTOR}, !plan.buffer<tensor<?x6xf32, #nn.dims<["T"]>>>
  }}
  plan.launch {{
    plan.call @double(%x, %z) {{symbols = ["T"]}} : {VECTOR}, {VECTOR}
  }}
  plan.switch attributes {{value = "T", bounds = array<i64: 1, 3>}} {{
    plan.launch {{
      plan.call @add(%a, %w, %y) {{symbols = ["T", "workers"]}} : {VECTOR}, !plan.buffer<tensor<1000xf32>>, {VECTOR}
    }}
  }}, {{
    plan.launch {{
      plan.call @double(%a, %y) {{symbols = ["T"]}} : {VECTOR}, {VECTOR}
    }}
  }}, {{
    plan.launch {{
      plan.call @double(%a, %b) {{symbols = ["T"]}} : {VECTOR}, {VECTOR}
    }}
    plan.launch {{
      plan.call @add(%b, %w, %y) {{symbols = ["T", "workers"]}} : {VECTOR}, !plan.buffer<tensor<1000xf32>>, {VECTOR}
    }}
  }}
  plan.return
}}
"""
