// RUN: lamina opt %s -p "choose-cache-layout{element=f16 tile=16}" | filecheck %s
// RUN: lamina opt %s -p "choose-cache-layout{element=f16 tile=48}" | filecheck %s
// RUN: lamina opt %s -p "choose-cache-layout{element=auto}" | filecheck %s --check-prefix AUTO
// RUN: not lamina opt %s -p "choose-cache-layout{element=i8}" 2>&1 | filecheck %s --check-prefix WRONG

// Keys that attention reads lie in tiles, from the argument through the write to the result;
// values, and keys that are only written, lie row by row.
// CHECK-LABEL: func.func @forward
// CHECK-SAME:    %k: !cache.pages<f16, "pages", 1 : i64, 16 : i64, 32 : i64, 16 : i64>
// CHECK-SAME:    %v: !cache.pages<f16, "pages", 1 : i64, 16 : i64, 32 : i64, 0 : i64>
// CHECK-SAME:    %unread: !cache.pages<f16, "pages", 1 : i64, 16 : i64, 32 : i64, 0 : i64>
// CHECK-SAME:    -> (tensor<{{.*}}>, !cache.pages<f16, "pages", 1 : i64, 16 : i64, 32 : i64, 16 : i64>, !cache.pages<f16, "pages", 1 : i64, 16 : i64, 32 : i64, 0 : i64>
// CHECK-SAME:    cache.page = 16 : i64
// CHECK:         cache.write %k, {{.*}} -> !cache.pages<f16, "pages", 1 : i64, 16 : i64, 32 : i64, 16 : i64>

// WRONG: error: pages of 'i8': expected one of f16, f32, bf16, auto

// One weight of less than f32 is enough for pages of f16.
// AUTO: %k: !cache.pages<f16,

!pool = !cache.pages<f32, "pages", 1 : i64, 16 : i64, 32 : i64, 0 : i64>
!row = tensor<?x1x32xf32, #nn.dims<["T"]>>
!ids = tensor<?xi32, #nn.dims<["T"]>>
!table = tensor<?x?xi32, #nn.dims<["S", "B"]>>

func.func @forward(%x: !row, %positions: !ids, %sequence: !ids, %start: tensor<?xi32, #nn.dims<["S + 1"]>>, %table: !table, %work: tensor<?x2xi32, #nn.dims<["W"]>>, %k: !pool, %v: !pool, %unread: !pool, %w: tensor<2xf32> {lamina.weight = "w"}, %u: tensor<2xf16> {lamina.weight = "u"}) -> (!row, !pool, !pool, !pool) {
  %k1 = cache.write %k, %x, %positions, %sequence, %table : (!pool, !row, !ids, !ids, !table) -> !pool
  %v1 = cache.write %v, %x, %positions, %sequence, %table : (!pool, !row, !ids, !ids, !table) -> !pool
  %u1 = cache.write %unread, %x, %positions, %sequence, %table : (!pool, !row, !ids, !ids, !table) -> !pool
  %y = cache.attention %x, %k1, %v1, %positions, %start, %table, %work {scale = 1.0 : f32, block = 1 : i64} : (!row, !pool, !pool, !ids, tensor<?xi32, #nn.dims<["S + 1"]>>, !table, tensor<?x2xi32, #nn.dims<["W"]>>) -> !row
  func.return %y, %k1, %v1, %u1 : !row, !pool, !pool, !pool
}
