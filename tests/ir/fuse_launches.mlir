// RUN: lamina opt %s -p fuse-launches | filecheck %s

// Two kernels that read x are one launch, which names the sources of both.
// CHECK-LABEL: func.func @forward
// CHECK:         plan.launch attributes {lamina.src = ["/q", "/k"]} {
// CHECK-NEXT:      plan.call @copy(%x, %a)
// CHECK-NEXT:      plan.call @copy(%x, %b)
// CHECK-NEXT:    }

// One that reads what another writes, be it through a view, comes after a barrier; so does one
// that writes what another reads.
// CHECK:         plan.launch {
// CHECK-NEXT:      plan.call @copy(%view, %x)
// CHECK-NEXT:    }
// CHECK:         plan.launch {
// CHECK-NEXT:      plan.call @copy(%b, %a)
// CHECK-NEXT:    }

// Branches are looked into, and none of their launches leaves them.
// CHECK-NEXT:    plan.switch
// CHECK-NEXT:      plan.launch {
// CHECK-NEXT:        plan.call @copy(%b, %x)
// CHECK-NEXT:        plan.call @copy(%b, %y)
// CHECK-NEXT:      }
// CHECK-NEXT:    }, {
// CHECK-NEXT:      plan.launch {
// CHECK-NEXT:        plan.call @copy(%b, %x)
// CHECK-NEXT:      }
// CHECK-NEXT:      plan.launch {
// CHECK-NEXT:        plan.call @copy(%x, %y)

!b = !plan.buffer<tensor<?xf32, #nn.dims<["T"]>>>

tile.kernel @copy attributes {symbols = [], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>):
  tile.return
}

func.func @forward(%x: !b, %y: !b) {
  %a = plan.alloc : !b
  plan.launch attributes {lamina.src = ["/q"]} {
    plan.call @copy(%x, %a) {symbols = []} : !b, !b
  }
  %b = plan.alloc : !b
  plan.launch attributes {lamina.src = ["/k"]} {
    plan.call @copy(%x, %b) {symbols = []} : !b, !b
  }
  %view = plan.view %a {offset = "0"} : !b to !b
  plan.launch {
    plan.call @copy(%view, %x) {symbols = []} : !b, !b
  }
  plan.launch {
    plan.call @copy(%b, %a) {symbols = []} : !b, !b
  }
  plan.switch attributes {value = "T", bounds = array<i64: 1>} {
    plan.launch {
      plan.call @copy(%b, %x) {symbols = []} : !b, !b
    }
    plan.launch {
      plan.call @copy(%b, %y) {symbols = []} : !b, !b
    }
  }, {
    plan.launch {
      plan.call @copy(%b, %x) {symbols = []} : !b, !b
    }
    plan.launch {
      plan.call @copy(%x, %y) {symbols = []} : !b, !b
    }
  }
  plan.return
}
