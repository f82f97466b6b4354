// RUN: lamina opt %s -p plan-memory,verify-plan | filecheck %s

// A chain needs two places, the largest first; offsets are extents.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %arena = plan.arena : !plan.buffer<tensor<?xi8, #nn.dims<["4864*T"]>>>
// CHECK-NEXT:    %a = plan.view %arena {offset = "2560*T"}
// CHECK-NEXT:    %b = plan.view %arena {offset = "0"}
// CHECK-NEXT:    %c = plan.view %arena {offset = "2560*T"}
// CHECK-NOT:     plan.alloc

// Branches of a switch use the same memory, and what lives across a branch keeps its own.
// CHECK-LABEL: func.func @branches
// CHECK-NEXT:    %arena = plan.arena : !plan.buffer<tensor<?xi8, #nn.dims<["192*ceildiv(4*T, 64)"]>>>
// CHECK-NEXT:    %kept = plan.view %arena {offset = "0"}
// CHECK-NEXT:    %out = plan.view %arena {offset = "128*ceildiv(4*T, 64)"}
// CHECK:         %left = plan.view %arena {offset = "64*ceildiv(4*T, 64)"}
// CHECK:         %right = plan.view %arena {offset = "64*ceildiv(4*T, 64)"}

// A kernel that may work in place does, and only there.
// CHECK-LABEL: func.func @in_place
// CHECK-NEXT:    %arena = plan.arena : !plan.buffer<tensor<?xi8, #nn.dims<["64*ceildiv(4*T, 64)"]>>>
// CHECK:         %a = plan.view %arena {offset = "0"}
// CHECK:         %b = plan.view %arena {offset = "0"}

// The operand is read by another kernel of the same launch: it keeps its place.
// CHECK-LABEL: func.func @not_in_place
// CHECK-NEXT:    %arena = plan.arena : !plan.buffer<tensor<?xi8, #nn.dims<["192*ceildiv(4*T, 64)"]>>>

tile.kernel @copy attributes {symbols = [], grid = ["1"], access = ["read", "write"], aliases = [[0, 1]]} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>):
  tile.return
}
tile.kernel @wide attributes {symbols = [], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<?x?xf32>, %y: memref<?x?xf32>):
  tile.return
}

func.func @chain(%x: !plan.buffer<tensor<?x576xf32, #nn.dims<["T"]>>>, %y: !plan.buffer<tensor<?x576xf32, #nn.dims<["T"]>>>) {
  %a = plan.alloc : !plan.buffer<tensor<?x576xf32, #nn.dims<["T"]>>>
  %b = plan.alloc : !plan.buffer<tensor<?x640xf32, #nn.dims<["T"]>>>
  %c = plan.alloc : !plan.buffer<tensor<?x576xf32, #nn.dims<["T"]>>>
  plan.launch {
    plan.call @wide(%x, %a) {symbols = []} : !plan.buffer<tensor<?x576xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?x576xf32, #nn.dims<["T"]>>>
  }
  plan.launch {
    plan.call @wide(%a, %b) {symbols = []} : !plan.buffer<tensor<?x576xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?x640xf32, #nn.dims<["T"]>>>
  }
  plan.launch {
    plan.call @wide(%b, %c) {symbols = []} : !plan.buffer<tensor<?x640xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?x576xf32, #nn.dims<["T"]>>>
  }
  plan.launch {
    plan.call @wide(%c, %y) {symbols = []} : !plan.buffer<tensor<?x576xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?x576xf32, #nn.dims<["T"]>>>
  }
  plan.return
}

func.func @branches(%x: !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, %y: !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>) {
  %kept = plan.alloc : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  %out = plan.alloc : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  plan.launch {
    plan.call @copy(%x, %kept) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }
  plan.switch attributes {value = "T", bounds = array<i64: 1>} {
    %left = plan.alloc : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
    plan.host @scale(%kept, %left) {access = ["read", "write"]} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
    plan.host @add(%kept, %left, %out) {access = ["read", "read", "write"]} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }, {
    %right = plan.alloc : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
    plan.host @scale(%kept, %right) {access = ["read", "write"]} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
    plan.host @add(%kept, %right, %out) {access = ["read", "read", "write"]} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }
  plan.launch {
    plan.call @copy(%out, %y) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }
  plan.return
}

func.func @in_place(%x: !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, %y: !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>) {
  %a = plan.alloc : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  %b = plan.alloc : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  plan.launch {
    plan.call @copy(%x, %a) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }
  plan.launch {
    plan.call @copy(%a, %b) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }
  plan.launch {
    plan.call @copy(%b, %y) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }
  plan.return
}

func.func @not_in_place(%x: !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, %y: !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>) {
  %a = plan.alloc : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  %b = plan.alloc : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  %c = plan.alloc : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  plan.launch {
    plan.call @copy(%x, %a) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }
  plan.launch {
    plan.call @copy(%a, %b) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
    plan.call @copy(%a, %c) {symbols = []} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  }
  plan.host @add(%b, %c, %y) {access = ["read", "read", "write"]} : !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>, !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>
  plan.return
}
