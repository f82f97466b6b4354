// RUN: lamina opt %s -p plan-joins | filecheck %s

// What joins is gone, and kernels that make columns, or read them, take their distance.
// CHECK-NOT:     @joined
// CHECK:         tile.kernel @copy
// CHECK-NEXT:    ^bb0(%x: memref<?x?xf32, strided<[?, 1]>>, %y: memref<?x?xf32, strided<[?, 1]>>):
// CHECK-NOT:     @joined
// CHECK:         tile.kernel @lines
// CHECK-NEXT:    ^bb0(%x: memref<?x?xf32>, %y: memref<?x?xf32>):

// A part of a part is columns of the whole, which the caller has. Its maker has the source.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %ab = plan.view %out {offset = "0", stride = "15", outer = 1 : i64}
// CHECK-NEXT:    %a = plan.view %out {offset = "0", stride = "15", outer = 1 : i64}
// CHECK-NEXT:    plan.launch {
// CHECK-NEXT:      plan.call @copy(%x, %a)
// CHECK:         %b = plan.view %out {offset = "12", stride = "15", outer = 1 : i64}
// CHECK-NEXT:    plan.launch attributes {lamina.src = ["/ab"]} {
// CHECK-NEXT:      plan.call @copy(%x, %b)
// CHECK:         %c = plan.view %out {offset = "32", stride = "15", outer = 1 : i64}
// CHECK-NEXT:    plan.launch attributes {lamina.src = ["/abc"]} {
// CHECK-NEXT:      plan.call @copy(%ab, %c)

// Lines follow one another, where each part begins at a multiple of 64 bytes.
// CHECK:         %d = plan.view %lines {offset = "0"}
// CHECK-NEXT:    plan.launch {
// CHECK-NEXT:      plan.call @lines(%x, %d)
// CHECK:         %e = plan.view %lines {offset = "64*T"}
// CHECK-NEXT:    plan.launch {
// CHECK-NEXT:      plan.call @lines(%x, %e)

// What is an argument is copied, with all that it is joined to.
// CHECK:         plan.call @unlike(%x, %f, %rest)
// CHECK-NEXT:    }

// One branch of a switch may write in parts what another writes as a whole.
// CHECK:         plan.switch
// CHECK-NEXT:      %g = plan.view %more {offset = "0"}
// CHECK-NEXT:      plan.launch {
// CHECK-NEXT:        plan.call @lines(%x, %g)
// CHECK-NEXT:      }
// CHECK-NEXT:      %h = plan.view %more {offset = "64*T"}
// CHECK-NEXT:      plan.launch {
// CHECK-NEXT:        plan.call @lines(%x, %h)
// CHECK-NEXT:      }
// CHECK-NEXT:    }, {
// CHECK-NEXT:      plan.launch {
// CHECK-NEXT:        plan.call @lines(%rest, %more)
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    plan.return

tile.kernel @copy attributes {symbols = [], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<?x?xf32>, %y: memref<?x?xf32>):
  tile.return
}
tile.kernel @joined attributes {symbols = [], grid = ["1"], access = ["read", "read", "write"], joins = 1 : i64} {
^bb0(%x: memref<?x?xf32>, %y: memref<?x?xf32>, %z: memref<?x?xf32>):
  tile.return
}
tile.kernel @lines attributes {symbols = [], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<?x?xf32>, %y: memref<?x?xf32>):
  tile.return
}
tile.kernel @joined_lines attributes {symbols = [], grid = ["1"], access = ["read", "read", "write"], joins = 0 : i64} {
^bb0(%x: memref<?x?xf32>, %y: memref<?x?xf32>, %z: memref<?x?xf32>):
  tile.return
}
tile.kernel @unlike attributes {symbols = [], grid = ["1"], access = ["read", "read", "write"], joins = 0 : i64} {
^bb0(%x: memref<?x?xf32>, %y: memref<?x?xf32>, %z: memref<?x?xf32>):
  tile.return
}

!x = !plan.buffer<tensor<?x16xf32, #nn.dims<["T"]>>>
!a = !plan.buffer<tensor<?x3xf32, #nn.dims<["T"]>>>
!b = !plan.buffer<tensor<?x5xf32, #nn.dims<["T"]>>>
!ab = !plan.buffer<tensor<?x8xf32, #nn.dims<["T"]>>>
!c = !plan.buffer<tensor<?x7xf32, #nn.dims<["T"]>>>
!abc = !plan.buffer<tensor<?x15xf32, #nn.dims<["T"]>>>
!lines = !plan.buffer<tensor<?x16xf32, #nn.dims<["2*T"]>>>

func.func @forward(%x: !x, %out: !abc {lamina.output = "y"}, %lines: !lines {lamina.output = "lines"}, %rest: !lines {lamina.output = "rest"}, %more: !lines {lamina.output = "more"}) {
  %a = plan.alloc : !a
  plan.launch {
    plan.call @copy(%x, %a) {symbols = []} : !x, !a
  }
  %b = plan.alloc : !b
  plan.launch {
    plan.call @copy(%x, %b) {symbols = []} : !x, !b
  }
  %ab = plan.alloc : !ab
  plan.launch attributes {lamina.src = ["/ab"]} {
    plan.call @joined(%a, %b, %ab) {symbols = []} : !a, !b, !ab
  }
  %c = plan.alloc : !c
  plan.launch {
    plan.call @copy(%ab, %c) {symbols = []} : !ab, !c
  }
  plan.launch attributes {lamina.src = ["/abc"]} {
    plan.call @joined(%ab, %c, %out) {symbols = []} : !ab, !c, !abc
  }
  %d = plan.alloc : !x
  plan.launch {
    plan.call @lines(%x, %d) {symbols = []} : !x, !x
  }
  %e = plan.alloc : !x
  plan.launch {
    plan.call @lines(%x, %e) {symbols = []} : !x, !x
  }
  plan.launch {
    plan.call @joined_lines(%d, %e, %lines) {symbols = []} : !x, !x, !lines
  }
  %f = plan.alloc : !x
  plan.launch {
    plan.call @lines(%x, %f) {symbols = []} : !x, !x
  }
  plan.launch {
    plan.call @unlike(%x, %f, %rest) {symbols = []} : !x, !x, !lines
  }
  plan.switch attributes {value = "T", bounds = array<i64: 4>} {
    %g = plan.alloc : !x
    plan.launch {
      plan.call @lines(%x, %g) {symbols = []} : !x, !x
    }
    %h = plan.alloc : !x
    plan.launch {
      plan.call @lines(%x, %h) {symbols = []} : !x, !x
    }
    plan.launch {
      plan.call @joined_lines(%g, %h, %more) {symbols = []} : !x, !x, !lines
    }
  }, {
    plan.launch {
      plan.call @lines(%rest, %more) {symbols = []} : !lines, !lines
    }
  }
  plan.return
}
