// RUN: lamina opt %s -p fold-branches | filecheck %s

// What a branch makes of a weight alone is made before it; splats and the rest stay.
// CHECK-LABEL: func.func @forward
// CHECK:         nn.transpose %w
// CHECK-NEXT:    %{{.*}} = nn.switch {value = "c", bounds = array<i64: 0>}
// CHECK-NOT:     nn.transpose
// CHECK:         nn.constant
// CHECK-NOT:     nn.transpose
// CHECK:         func.return

!m = tensor<3x3xf32>

func.func @forward(%x: !m {lamina.input = "x"}, %n: tensor<1xi64> {lamina.input = "n"}, %w: !m {lamina.weight = "w"}) -> !m {
  nn.bind %n {symbols = ["c"], equal = []} : tensor<1xi64>
  %y = nn.switch {value = "c", bounds = array<i64: 0>} : !m {
    %t = nn.transpose %w {perm = array<i64: 1, 0>} : (!m) -> !m
    %a = nn.add %x, %t : !m
    nn.yield %a : !m
  }, {
    %k = nn.constant {value = 2.000000e+00 : f32} : !m
    %b = nn.mul %x, %k : !m
    nn.yield %b : !m
  }
  func.return %y : !m
}
