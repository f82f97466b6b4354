// RUN: lamina opt %s -p fold-transposes | filecheck %s

// Between two convolutions, whose images have their channels last, nothing is transposed: what
// happens with channels first happens with channels last.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %a = nn.transpose %x {perm = array<i64: 0, 2, 3, 1>}
// CHECK-NEXT:    %b = nn.conv %a, %w
// CHECK-NEXT:    %[[B:.*]] = nn.broadcast %bias {dims = array<i64: 3>}
// CHECK-NEXT:    %[[D:.*]] = nn.add %b, %[[B]]
// CHECK-NEXT:    %e = nn.relu %[[D]]
// CHECK-NEXT:    %[[P:.*]] = nn.pad %e {{.*}}-> tensor<?x8x8x16xf32
// CHECK-NEXT:    %[[C:.*]] = nn.concat %[[P]], %[[P]] {dim = 3 : i64}
// CHECK-NEXT:    %[[G:.*]] = nn.conv %[[C]], %v

// A residual of two branches, and means that only look at what vanishes.
// CHECK-NEXT:    %[[R:.*]] = nn.add %[[G]], %e
// CHECK-NEXT:    %[[Y:.*]] = nn.transpose %[[R]] {perm = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT:    %m = nn.reduce %[[R]] {kind = "add", dims = array<i64: 1, 2>}
// CHECK-NEXT:    func.return %[[Y]], %m

!x = tensor<?x16x6x6xf32, #nn.dims<["N"]>>
!p = tensor<?x16x8x8xf32, #nn.dims<["N"]>>
!c = tensor<?x32x8x8xf32, #nn.dims<["N"]>>
!xl = tensor<?x6x6x16xf32, #nn.dims<["N"]>>
!cl = tensor<?x8x8x32xf32, #nn.dims<["N"]>>

func.func @forward(%x: !x, %w: tensor<16x1x1x16xf32> {lamina.weight = "w"}, %v: tensor<16x3x3x32xf32> {lamina.weight = "v"}, %bias: tensor<16xf32> {lamina.weight = "b"}) -> (!x, tensor<?x16xf32, #nn.dims<["N"]>>) {
  %a = nn.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (!x) -> !xl
  %b = nn.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!xl, tensor<16x1x1x16xf32>) -> !xl
  %c = nn.transpose %b {perm = array<i64: 0, 3, 1, 2>} : (!xl) -> !x
  %s = nn.broadcast %bias {dims = array<i64: 1>} : (tensor<16xf32>) -> !x
  %d = nn.add %c, %s : !x
  %e = nn.relu %d : !x
  %f = nn.pad %e {low = ["0", "0", "1", "1"], high = ["0", "0", "1", "1"], value = 0.0 : f32} : (!x) -> !p
  %g = nn.concat %f, %f {dim = 1 : i64} : (!p, !p) -> !c
  %h = nn.transpose %g {perm = array<i64: 0, 2, 3, 1>} : (!c) -> !cl
  %i = nn.conv %h, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!cl, tensor<16x3x3x32xf32>) -> !xl
  %j = nn.transpose %i {perm = array<i64: 0, 3, 1, 2>} : (!xl) -> !x
  %y = nn.add %j, %e : !x
  %m = nn.reduce %y {kind = "add", dims = array<i64: 2, 3>} : (!x) -> tensor<?x16xf32, #nn.dims<["N"]>>
  func.return %y, %m : !x, tensor<?x16xf32, #nn.dims<["N"]>>
}
