// RUN: lamina opt %s -p fold-scales | filecheck %s

// A batch norm behind a bias becomes a bias alone, of weights that are multiplied beforehand.
// CHECK-LABEL: func.func @forward
// CHECK:         %[[B:.*]] = nn.mul %b, %s : tensor<8xf32>
// CHECK-NEXT:    %[[S:.*]] = nn.broadcast %s {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x1x3x4xf32>
// CHECK-NEXT:    %[[W:.*]] = nn.mul %w, %[[S]]
// CHECK-NEXT:    %[[C:.*]] = nn.conv %x, %[[W]]
// CHECK-NEXT:    %[[A:.*]] = nn.broadcast %[[B]] {dims = array<i64: 3>}
// CHECK-NEXT:    %y = nn.add %[[C]], %[[A]]

// What a call brings is not known before, and what else uses a result needs it as it is.
// CHECK-NEXT:    %d = nn.conv %x, %v
// CHECK:         %m = nn.mul %d, %{{.*}}
// CHECK-NEXT:    %e = nn.conv %x, %w
// CHECK-NEXT:    %n = nn.mul %e, %{{.*}}

!x = tensor<?x2x5x4xf32, #nn.dims<["B"]>>
!y = tensor<?x2x3x8xf32, #nn.dims<["B"]>>
!w = tensor<8x1x3x4xf32>
!s = tensor<8xf32>

func.func @forward(%x: !x {lamina.input = "x"}, %v: !w {lamina.input = "v"}, %w: !w {lamina.weight = "w"}, %b: !s {lamina.weight = "b"}, %s: !s {lamina.weight = "s"}) -> (!y {lamina.output = "y"}, !y {lamina.output = "m"}, !y {lamina.output = "n"}, !y {lamina.output = "e"}) {
  %c = nn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, !w) -> !y
  %bias = nn.broadcast %b {dims = array<i64: 3>} : (!s) -> !y
  %scale = nn.broadcast %s {dims = array<i64: 3>} : (!s) -> !y
  %a = nn.add %c, %bias : !y
  %y = nn.mul %a, %scale : !y
  %d = nn.conv %x, %v {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, !w) -> !y
  %m = nn.mul %d, %scale : !y
  %e = nn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, !w) -> !y
  %n = nn.mul %e, %scale : !y
  func.return %y, %m, %n, %e : !y, !y, !y, !y
}
