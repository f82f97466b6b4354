// RUN: lamina opt %s -p outline-groups,fuse-elementwise | filecheck %s

// What has one user that goes through rows is computed there; what has two is not.
// CHECK:       nn.group @exp_mul_softmax
// CHECK:         %e = nn.exp
// CHECK-NEXT:    %m = nn.mul %e
// CHECK-NEXT:    %s = nn.softmax %m
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %s = nn.call @exp_mul_softmax(%x, %w)
// CHECK-NEXT:    %t = nn.call @tanh(%s)
// CHECK-NEXT:    %v = nn.call @add_add(%t, %s)

!x = tensor<?x32xf32, #nn.dims<["T"]>>

func.func @forward(%x: !x, %w: !x) -> !x {
  %e = nn.exp %x : !x
  %m = nn.mul %e, %w : !x
  %s = nn.softmax %m {axis = 1 : i64} : (!x) -> !x
  %t = nn.tanh %s : !x
  %u = nn.add %t, %s : !x
  %v = nn.add %t, %u : !x
  func.return %v : !x
}
