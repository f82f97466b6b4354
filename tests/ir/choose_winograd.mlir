// RUN: lamina opt %s -p choose-winograd | filecheck %s

// Weights are transformed where they are known, and results made in tiles of 4 x 4.
// CHECK-LABEL: func.func @forward
// CHECK:         %[[R:.*]] = nn.reshape %w : (tensor<32x3x3x16xf32>) -> tensor<2x16x9x16xf32>
// CHECK-NEXT:    %[[G:.*]] = nn.constant {{.*}} : tensor<36x9xf32>
// CHECK-NEXT:    %[[T:.*]] = nn.dot_general %[[G]], %[[R]] {contract = {{\[\[1 : i64, 2 : i64\]\]}}}
// CHECK-NEXT:    %[[U:.*]] = nn.transpose %[[T]] {perm = array<i64: 0, 1, 3, 2>} {{.*}} -> tensor<36x2x16x16xf32>
// CHECK:         %a = nn.winograd %x, %[[U]] {tile = 4 : i64, window = 3 : i64, pads = array<i64: 1, 1, 1, 1>}

// With a stride it is a direct convolution, and so is one of weights that a call brings.
// CHECK-NEXT:    %b = nn.conv %x, %w {strides = array<i64: 2, 2>
// CHECK-NEXT:    %c = nn.conv %x, %v {strides = array<i64: 1, 1>

!x = tensor<?x14x14x16xf32, #nn.dims<["B"]>>
!y = tensor<?x14x14x32xf32, #nn.dims<["B"]>>
!z = tensor<?x7x7x32xf32, #nn.dims<["B"]>>
!w = tensor<32x3x3x16xf32>

func.func @forward(%x: !x {lamina.input = "x"}, %v: !w {lamina.input = "v"}, %w: !w {lamina.weight = "w"}) -> (!y {lamina.output = "a"}, !z {lamina.output = "b"}, !y {lamina.output = "c"}) {
  %a = nn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, !w) -> !y
  %b = nn.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, !w) -> !z
  %c = nn.conv %x, %v {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, !w) -> !y
  func.return %a, %b, %c : !y, !z, !y
}
