// RUN: lamina opt %s -p outline-groups,fuse-elementwise | filecheck %s

// What has one user that goes through rows is computed there, and what has two that become one;
// a dimension of one element may be put in between. What has two others is not.
// CHECK:       nn.group @exp_mul_softmax
// CHECK:         %e = nn.exp
// CHECK-NEXT:    %m = nn.mul %e
// CHECK-NEXT:    %s = nn.softmax %m
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %s = nn.call @exp_mul_softmax(%x, %w)
// CHECK-NEXT:    %t = nn.call @tanh(%s)
// CHECK-NEXT:    %u = nn.call @softmax(%t)
// CHECK-NEXT:    %z = nn.call @sqrt_add_mul_neg(%u, %t)
// CHECK-NEXT:    func.return %z

!x = tensor<?x32xf32, #nn.dims<["T"]>>
!y = tensor<?x1x32xf32, #nn.dims<["T"]>>

func.func @forward(%x: !x, %w: !x) -> !y {
  %e = nn.exp %x : !x
  %m = nn.mul %e, %w : !x
  %s = nn.softmax %m {axis = 1 : i64} : (!x) -> !x
  %t = nn.tanh %s : !x
  %u = nn.softmax %t {axis = 1 : i64} : (!x) -> !x
  %a = nn.sqrt %u : !x
  %b = nn.add %a, %t : !x
  %v = nn.mul %a, %b : !x
  %y = nn.reshape %v : (!x) -> !y
  %z = nn.neg %y : !y
  func.return %z : !y
}
