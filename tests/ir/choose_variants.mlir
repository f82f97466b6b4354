// RUN: lamina opt %s -p outline-groups,choose-variants{bounds=1,8} | filecheck %s
// RUN: lamina opt %s -p choose-variants | filecheck %s --check-prefix NONE

// A branch for each range of the extent that products have most often: T, not R.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT:    %{{.*}} = nn.switch {value = "T", bounds = array<i64: 1, 8>}
// CHECK-COUNT-3: nn.call @dot_general(%x, %w)
// CHECK-NOT:     nn.call @dot_general(%x, %w)
// CHECK:         func.return

// Without outlined products there is nothing to tell apart.
// NONE-NOT:      nn.switch

!x = tensor<?x8xf32, #nn.dims<["T"]>>
!y = tensor<?x1x16xf32, #nn.dims<["T"]>>
!z = tensor<?x1x16xf32, #nn.dims<["R"]>>
!w = tensor<1x8x16xf32>

func.func @forward(%x: !x, %r: tensor<?x8xf32, #nn.dims<["R"]>>, %w: !w) -> (!y, !y, !z) {
  %a = nn.dot_general %x, %w {contract = [[1, 1]]} : (!x, !w) -> !y
  %b = nn.tanh %a : !y
  %c = nn.dot_general %r, %w {contract = [[1, 1]]} : (tensor<?x8xf32, #nn.dims<["R"]>>, !w) -> !z
  %d = nn.sub %x, %x : !x
  %e = nn.dot_general %d, %w {contract = [[1, 1]]} : (!x, !w) -> !y
  func.return %b, %e, %c : !y, !y, !z
}
