// RUN: lamina opt %s -p prepare-weights | filecheck %s

// What depends on weights alone moves; its results are named after the weights.
// CHECK-LABEL: func.func @prepare
// CHECK-SAME:    %w: tensor<8x4xf16> {lamina.weight = "w"}
// CHECK-SAME:    %g: tensor<4xf32> {lamina.weight = "g"}
// CHECK-SAME:    -> (tensor<4xf32> {lamina.packed = "g"}, tensor<4x8xf16> {lamina.packed = "w"}, tensor<8x4xf32> {lamina.packed = "w.2"}, tensor<4xf32> {lamina.packed = "g.2"}, tensor<2xi32> {lamina.packed = "constant"})
// CHECK-NEXT:    %turned = nn.transpose %w
// CHECK-NEXT:    %[[WIDE:.*]] = nn.cast %turned
// CHECK-NEXT:    %back = nn.transpose %[[WIDE]]
// CHECK-NEXT:    %root = nn.sqrt %g
// CHECK-NEXT:    %listed = nn.constant
// CHECK-NEXT:    func.return %g, %turned, %back, %root, %listed

// What only makes a weight larger, and a constant of one value, stay where they are used, and are
// in both functions if both use them.
// CHECK-LABEL: func.func @forward
// CHECK-SAME:    %x: tensor<?x4xf32, #nn.dims<["T"]>> {lamina.input = "x"}
// CHECK-SAME:    %[[G:.*]]: tensor<4xf32> {lamina.packed = "g"}
// CHECK-SAME:    %[[W:.*]]: tensor<4x8xf16> {lamina.packed = "w"}
// CHECK-NEXT:    %wide = nn.cast %[[W]]
// CHECK-NEXT:    %two = nn.constant
// CHECK-NEXT:    %y = nn.dot_general %x, %wide
// CHECK-NEXT:    %[[R:.*]] = nn.broadcast %[[B:.*]] {dims = array<i64: 1>}
// CHECK-NEXT:    %z = nn.add %s, %[[R]]

!x = tensor<?x4xf32, #nn.dims<["T"]>>

func.func @forward(%x: !x {lamina.input = "x"}, %s: tensor<9x4xf32> {lamina.input = "s"}, %w: tensor<8x4xf16> {lamina.weight = "w"}, %g: tensor<4xf32> {lamina.weight = "g"}) -> (tensor<?x8xf32, #nn.dims<["T"]>>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xi32>, !x, tensor<9x4xf32>) {
  %turned = nn.transpose %w {perm = array<i64: 1, 0>} : (tensor<8x4xf16>) -> tensor<4x8xf16>
  %wide = nn.cast %turned : (tensor<4x8xf16>) -> tensor<4x8xf32>
  %back = nn.transpose %wide {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %root = nn.sqrt %g : tensor<4xf32>
  %listed = nn.constant {value = dense<[1, 2]> : tensor<2xi32>} : tensor<2xi32>
  %two = nn.constant {value = 2.0 : f32} : !x
  %y = nn.dot_general %x, %wide {contract = [[1, 0]]} : (!x, tensor<4x8xf32>) -> tensor<?x8xf32, #nn.dims<["T"]>>
  %repeated = nn.broadcast %root {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<9x4xf32>
  %z = nn.add %s, %repeated : tensor<9x4xf32>
  func.return %y, %back, %g, %root, %listed, %two, %z : tensor<?x8xf32, #nn.dims<["T"]>>, tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xi32>, !x, tensor<9x4xf32>
}
