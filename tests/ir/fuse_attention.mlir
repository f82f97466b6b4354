// RUN: lamina opt %s -p "fuse-attention{rows=4},fold-duplicates" | filecheck %s

// Two query heads share a pool's head: four rows are two tokens. The heads are side by side.
// CHECK-LABEL: func.func @forward
// CHECK-SAME:      cache.block = 2 : i64
// CHECK:         %[[FLAT:.*]] = nn.reshape %q {{.*}} -> tensor<?x2x32xf32
// CHECK-NEXT:    %[[OUT:.*]] = cache.attention %[[FLAT]], %k, %v, %positions, %start, %table, %work {{.*}}lamina.src = ["/attn"]{{.*}}scale = 5.000000e-01 : f32, block = 2 : i64
// CHECK-NEXT:    %y = nn.reshape %[[OUT]]

// A mask that hides a token's own place as well is not the causal one.
// CHECK-NOT:     cache.attention
// CHECK:         %r = nn.softmax %other
// CHECK-NOT:     cache.attention

!pool = !cache.pages<f32, "pages", 1 : i64, 16 : i64, 32 : i64, 0 : i64>
!ids = tensor<?xi32, #nn.dims<["T"]>>
!table = tensor<?x?xi32, #nn.dims<["S", "B"]>>
!q = tensor<?x1x2x32xf32, #nn.dims<["T"]>>
!kv = tensor<?x?x1x32xf32, #nn.dims<["T", "16*B"]>>
!s = tensor<?x1x2x?xf32, #nn.dims<["T", "16*B"]>>
!i = tensor<?x1x2x?xi32, #nn.dims<["T", "16*B"]>>
!m = tensor<?x1x2x?xi1, #nn.dims<["T", "16*B"]>>

func.func @forward(%q: !q, %positions: !ids {cache.role = "positions"}, %start: tensor<?xi32, #nn.dims<["S + 1"]>> {cache.role = "query_start"}, %table: !table {cache.role = "table"}, %work: tensor<?x2xi32, #nn.dims<["W"]>> {cache.role = "work"}, %k: !pool, %v: !pool) -> (!q, !q) {
  %sequence = cache.sequence %start : (tensor<?xi32, #nn.dims<["S + 1"]>>) -> !ids
  %places = nn.iota {dim = 0 : i64} : tensor<?xi32, #nn.dims<["16*B"]>>
  %place = nn.broadcast %places {dims = array<i64: 3>} : (tensor<?xi32, #nn.dims<["16*B"]>>) -> !i
  %own = nn.broadcast %positions {dims = array<i64: 0>} : (!ids) -> !i
  %keys = cache.read %k, %positions, %sequence, %table : (!pool, !ids, !ids, !table) -> !kv
  %values = cache.read %v, %positions, %sequence, %table : (!pool, !ids, !ids, !table) -> !kv
  %half = nn.constant {value = 0.5 : f32} : !s
  %hidden = nn.constant {value = 0xff800000 : f32} : !s
  %scores = nn.dot_general %q, %keys {contract = [[3, 3]], batch = [[0, 0], [1, 2]]} : (!q, !kv) -> !s
  %scaled = nn.mul %scores, %half : !s

  %seen = nn.compare %place, %own {kind = "le"} : (!i, !i) -> !m
  %masked = nn.select %seen, %scaled, %hidden : (!m, !s, !s) -> !s
  %p = nn.softmax %masked {axis = 3 : i64} : (!s) -> !s
  %y = nn.dot_general %p, %values {contract = [[3, 1]], batch = [[0, 0], [1, 2]], lamina.src = ["/attn"]} : (!s, !kv) -> !q

  %before = nn.compare %place, %own {kind = "lt"} : (!i, !i) -> !m
  %other = nn.select %before, %scaled, %hidden : (!m, !s, !s) -> !s
  %r = nn.softmax %other {axis = 3 : i64} : (!s) -> !s
  %z = nn.dot_general %r, %values {contract = [[3, 1]], batch = [[0, 0], [1, 2]]} : (!s, !kv) -> !q
  func.return %y, %z : !q, !q
}
