// RUN: not lamina opt %s -p verify-plan 2>&1 | filecheck %s

// Of the two buffers one lies where the other begins to be needed no more, but for one read.
// CHECK: error: the plan of @forward: @add reads %a, but @copy wrote %b over it

tile.kernel @copy attributes {symbols = [], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>):
  tile.return
}
tile.kernel @add attributes {symbols = [], grid = ["1"], access = ["read", "read", "write"]} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>, %z: memref<?xf32>):
  tile.return
}

func.func @forward(%x: !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>> {lamina.input = "x"}, %y: !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>> {lamina.output = "y"}) {
  %arena = plan.arena : !plan.buffer<tensor<?xi8, #nn.dims<["128*ceildiv(T, 16)"]>>>
  %a = plan.view %arena {offset = "0"} : !plan.buffer<tensor<?xi8, #nn.dims<["128*ceildiv(T, 16)"]>>> to !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  %b = plan.view %arena {offset = "0"} : !plan.buffer<tensor<?xi8, #nn.dims<["128*ceildiv(T, 16)"]>>> to !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  %c = plan.view %arena {offset = "64*ceildiv(T, 16)"} : !plan.buffer<tensor<?xi8, #nn.dims<["128*ceildiv(T, 16)"]>>> to !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  plan.launch {
    plan.call @copy(%x, %a) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }
  plan.launch {
    plan.call @copy(%x, %b) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
    plan.call @copy(%x, %c) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }
  plan.launch {
    plan.call @add(%a, %b, %y) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }
  plan.return
}
