// RUN: lamina opt %s -p "choose-splits{span=40 rows=8}" | filecheck %s

// Parts have whole pages. What followed attention is in the group that merges them.
// CHECK:       nn.group @attend_merge attributes {anchor = "merge"} {
// CHECK-NEXT:  ^bb0(%[[PARTS:.*]]: tensor<?x4x?x36xf32, #nn.dims<["min(T, 8)", "ceildiv(B, 2)"]>>, %[[POSITIONS:.*]]: tensor<?xi32, #nn.dims<["T"]>>):
// CHECK-NEXT:    %[[Y:.*]] = cache.merge %[[PARTS]], %[[POSITIONS]] {{.*}}span = 32 : i64
// CHECK-NEXT:    nn.tanh %[[Y]]
// CHECK:       nn.group @attend_parts attributes {anchor = "partial_attention"} {
// CHECK:         cache.partial_attention {{.*}}span = 32 : i64
// CHECK-NEXT:    nn.yield

// Where there may be many rows, one program goes over the parts.
// CHECK:       nn.group @attend attributes {anchor = "attention"} {
// CHECK:         cache.attention {{.*}}span = 32 : i64

// CHECK-LABEL: func.func @forward
// CHECK:         nn.switch {value = "T", bounds = array<i64: 1, 8>}
// CHECK-NEXT:      %[[A:.*]] = nn.call @attend_parts(%q, %k, %v, %positions, %start, %table, %work)
// CHECK-NEXT:      nn.call @attend_merge(%[[A]], %positions)
// CHECK:         }, {
// CHECK-NEXT:      %[[B:.*]] = nn.call @attend_parts(%q, %k, %v, %positions, %start, %table, %work)
// CHECK-NEXT:      nn.call @attend_merge(%[[B]], %positions)
// CHECK:         }, {
// CHECK-NEXT:      nn.call @attend(%q, %k, %v, %positions, %start, %table, %work)

// The sums of 16 rows of 256 would not fit twice.
// CHECK:         nn.call @wide(
// CHECK-NOT:     nn.call @wide_parts

!keys = !cache.pages<f32, "pages", 2 : i64, 16 : i64, 32 : i64, 0 : i64>
!wide = !cache.pages<f32, "pages", 1 : i64, 16 : i64, 256 : i64, 0 : i64>
!ids = tensor<?xi32, #nn.dims<["T"]>>
!starts = tensor<?xi32, #nn.dims<["S + 1"]>>
!table = tensor<?x?xi32, #nn.dims<["S", "B"]>>
!work = tensor<?x2xi32, #nn.dims<["W"]>>
!q = tensor<?x4x32xf32, #nn.dims<["T"]>>
!r = tensor<?x16x256xf32, #nn.dims<["T"]>>

nn.group @attend attributes {anchor = "attention"} {
^bb0(%q: !q, %k: !keys, %v: !keys, %positions: !ids, %start: !starts, %table: !table, %work: !work):
  %y = cache.attention %q, %k, %v, %positions, %start, %table, %work {scale = 0.5 : f32, block = 1 : i64} : (!q, !keys, !keys, !ids, !starts, !table, !work) -> !q
  %t = nn.tanh %y : !q
  nn.yield %t : !q
}
nn.group @wide attributes {anchor = "attention"} {
^bb0(%q: !r, %k: !wide, %v: !wide, %positions: !ids, %start: !starts, %table: !table, %work: !work):
  %y = cache.attention %q, %k, %v, %positions, %start, %table, %work {scale = 0.5 : f32, block = 1 : i64} : (!r, !wide, !wide, !ids, !starts, !table, !work) -> !r
  nn.yield %y : !r
}
func.func @forward(%q: !q, %k: !keys, %v: !keys, %r: !r, %l: !wide, %w: !wide, %positions: !ids, %start: !starts, %table: !table, %work: !work) -> (!q, !r) {
  %y = nn.switch {value = "T", bounds = array<i64: 1, 8>} : !q {
    %a = nn.call @attend(%q, %k, %v, %positions, %start, %table, %work) : (!q, !keys, !keys, !ids, !starts, !table, !work) -> !q
    nn.yield %a : !q
  }, {
    %b = nn.call @attend(%q, %k, %v, %positions, %start, %table, %work) : (!q, !keys, !keys, !ids, !starts, !table, !work) -> !q
    nn.yield %b : !q
  }, {
    %c = nn.call @attend(%q, %k, %v, %positions, %start, %table, %work) : (!q, !keys, !keys, !ids, !starts, !table, !work) -> !q
    nn.yield %c : !q
  }
  %z = nn.switch {value = "T", bounds = array<i64: 1>} : !r {
    %d = nn.call @wide(%r, %l, %w, %positions, %start, %table, %work) : (!r, !wide, !wide, !ids, !starts, !table, !work) -> !r
    nn.yield %d : !r
  }, {
    %e = nn.call @wide(%r, %l, %w, %positions, %start, %table, %work) : (!r, !wide, !wide, !ids, !starts, !table, !work) -> !r
    nn.yield %e : !r
  }
  func.return %y, %z : !q, !r
}
