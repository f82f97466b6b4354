// RUN: lamina opt %s -p outline-groups | filecheck %s

// What only widens a weight, a constant and a repeated tensor go with what uses them.
// CHECK:       nn.group @cast_dot_general attributes {anchor = "linear"}
// CHECK:       nn.group @broadcast_add attributes {anchor = "rows"}
// CHECK:       nn.group @constant_mul attributes {anchor = "rows"}
// CHECK-NEXT:    ^{{.*}}(%[[A:.*]]: tensor<?x8xf32
// CHECK-NEXT:    %two = nn.constant {value = 2.000000e+00 : f32}
// CHECK-NEXT:    nn.mul %{{.*}}, %two :

// Equal operations are one group, whatever their source; a gather's source names it in errors.
// CHECK:       nn.group @gather attributes {anchor = "rows"}
// CHECK:         nn.gather %{{.*}} {lamina.src = ["/embed"], axis = 0 : i64}
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %x = nn.call @gather(%table, %ids) {lamina.src = ["/embed"]}
// CHECK-NEXT:    %a = nn.call @constant_mul(%x) {lamina.src = ["/a"]}
// CHECK-NEXT:    %b = nn.call @constant_mul(%a) {lamina.src = ["/b"]}
// CHECK-NEXT:    %c = nn.call @broadcast_add(%bias, %b)
// CHECK-NEXT:    %d = nn.call @cast_dot_general(%w, %c)

// A reshape needs no kernel; a repeated tensor that a product takes does.
// CHECK-NEXT:    %e = nn.reshape %d
// CHECK-NEXT:    %f = nn.call @broadcast(%bias)
// CHECK-NEXT:    %g = nn.call @dot_general_2(%f, %e)
// CHECK-NEXT:    func.return

!x = tensor<?x8xf32, #nn.dims<["T"]>>
!w = tensor<1x8x16xf16>

func.func @forward(%table: tensor<9x8xf32>, %ids: tensor<?xi32, #nn.dims<["T"]>>, %w: !w, %bias: tensor<8xf32>) -> tensor<?x?xf32, #nn.dims<["T", "2*T"]>> {
  %x = nn.gather %table, %ids {axis = 0 : i64, lamina.src = ["/embed"]} : (tensor<9x8xf32>, tensor<?xi32, #nn.dims<["T"]>>) -> !x
  %two = nn.constant {value = 2.0 : f32} : !x
  %a = nn.mul %x, %two {lamina.src = ["/a"]} : !x
  %b = nn.mul %a, %two {lamina.src = ["/b"]} : !x
  %wide = nn.broadcast %bias {dims = array<i64: 1>} : (tensor<8xf32>) -> !x
  %c = nn.add %b, %wide : !x
  %wf = nn.cast %w : (!w) -> tensor<1x8x16xf32>
  %d = nn.dot_general %c, %wf {contract = [[1, 1]]} : (!x, tensor<1x8x16xf32>) -> tensor<?x1x16xf32, #nn.dims<["T"]>>
  %e = nn.reshape %d : (tensor<?x1x16xf32, #nn.dims<["T"]>>) -> tensor<?x8xf32, #nn.dims<["2*T"]>>
  %f = nn.broadcast %bias {dims = array<i64: 1>} : (tensor<8xf32>) -> !x
  %g = nn.dot_general %f, %e {contract = [[1, 1]]} : (!x, tensor<?x8xf32, #nn.dims<["2*T"]>>) -> tensor<?x?xf32, #nn.dims<["T", "2*T"]>>
  func.return %g : tensor<?x?xf32, #nn.dims<["T", "2*T"]>>
}
