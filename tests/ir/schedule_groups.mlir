// RUN: lamina opt %s -p "schedule-groups{lanes=16 registers=32 rows=8 many=32 few-rows=1 few=64 k=4}" | filecheck %s

// In the branch of one row a tile is wide, in the other it has rows; so the group is there twice.
// Float weights have tiles of their own.
// CHECK-DAG:   nn.group @up attributes {anchor = "linear", schedule = #tile.schedule<{m = 1 : i64, n = 64 : i64, r = 64 : i64, k = 4 : i64}>}
// CHECK-DAG:   nn.group @up_2 attributes {anchor = "linear", schedule = #tile.schedule<{m = 4 : i64, n = 64 : i64, r = 64 : i64, k = 4 : i64}>}

// A tile holds a whole head where halves of it are rotated, wider than wished for or not.
// CHECK-DAG:   nn.group @heads attributes {anchor = "linear", schedule = #tile.schedule<{m = 1 : i64, n = 128 : i64, r = 128 : i64, k = 4 : i64}>}
// CHECK-DAG:   nn.group @heads_2 attributes {anchor = "linear", schedule = #tile.schedule<{m = 4 : i64, n = 128 : i64, r = 64 : i64, k = 4 : i64}>}

// Of 96 columns, tiles of 48 would hold no whole blocks of 32.
// CHECK-DAG:   nn.group @ends attributes {anchor = "linear", schedule = #tile.schedule<{m = 1 : i64, n = 32 : i64, r = 32 : i64, k = 4 : i64}>}

// CHECK-LABEL: func.func @forward
// CHECK:         nn.switch
// CHECK-NEXT:      %{{.*}} = nn.call @up(%x, %w)
// CHECK-NEXT:      %{{.*}} = nn.call @heads(%x, %w, %cos, %cos)
// CHECK-NEXT:      %{{.*}} = nn.call @ends(%r, %v)
// CHECK:         }, {
// CHECK-NEXT:      %{{.*}} = nn.call @up_2(%x, %w)
// CHECK-NEXT:      %{{.*}} = nn.call @heads_2(%x, %w, %cos, %cos)
// CHECK-NEXT:      %{{.*}} = nn.call @ends_2(%r, %v)

!x = tensor<?x8xf32, #nn.dims<["T"]>>
!r = tensor<?x8xf32, #nn.dims<["R"]>>
!c = tensor<?x64xf32, #nn.dims<["T"]>>
!t = tensor<?x16x16xf32, #nn.dims<["T"]>>
!h = tensor<?x2x128xf32, #nn.dims<["T"]>>
!q = tensor<?x96xi8, #nn.dims<["R"]>>
!s = tensor<?x3xf32, #nn.dims<["R"]>>
!w = tensor<16x8x16xf32>
!v = tensor<6x8x16xf32>

nn.group @up attributes {anchor = "linear"} {
^bb0(%x: !x, %w: !w):
  %y = nn.dot_general %x, %w {contract = [[1, 1]]} : (!x, !w) -> !t
  nn.yield %y : !t
}
nn.group @heads attributes {anchor = "linear"} {
^bb0(%x: !x, %w: !w, %cos: !c, %sin: !c):
  %y = nn.dot_general %x, %w {contract = [[1, 1]]} : (!x, !w) -> !t
  %f = nn.reshape %y : (!t) -> tensor<?x256xf32, #nn.dims<["T"]>>
  %h = nn.reshape %f : (tensor<?x256xf32, #nn.dims<["T"]>>) -> !h
  %r = nn.rope %h, %cos, %sin : (!h, !c, !c) -> !h
  nn.yield %r : !h
}
nn.group @ends attributes {anchor = "linear"} {
^bb0(%x: !r, %w: !v):
  %y = nn.dot_general %x, %w {contract = [[1, 1]]} : (!r, !v) -> tensor<?x6x16xf32, #nn.dims<["R"]>>
  %f = nn.reshape %y : (tensor<?x6x16xf32, #nn.dims<["R"]>>) -> tensor<?x96xf32, #nn.dims<["R"]>>
  %q, %d, %s = quant.quantize %f : (tensor<?x96xf32, #nn.dims<["R"]>>) -> (!q, !s, !s)
  nn.yield %q : !q
}

func.func @forward(%x: !x, %r: !r, %w: !w, %v: !v, %cos: !c) -> (!t, !h, !q) {
  %a, %b, %c = nn.switch {value = "T", bounds = array<i64: 1>} : !t, !h, !q {
    %up = nn.call @up(%x, %w) : (!x, !w) -> !t
    %heads = nn.call @heads(%x, %w, %cos, %cos) : (!x, !w, !c, !c) -> !h
    %ends = nn.call @ends(%r, %v) : (!r, !v) -> !q
    nn.yield %up, %heads, %ends : !t, !h, !q
  }, {
    %up = nn.call @up(%x, %w) : (!x, !w) -> !t
    %heads = nn.call @heads(%x, %w, %cos, %cos) : (!x, !w, !c, !c) -> !h
    %ends = nn.call @ends(%r, %v) : (!r, !v) -> !q
    nn.yield %up, %heads, %ends : !t, !h, !q
  }
  func.return %a, %b, %c : !t, !h, !q
}
