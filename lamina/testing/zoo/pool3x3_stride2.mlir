// Maximum and mean over 3x3 windows of stride 2 and padding 1, channels last.
// The mean counts the pixels inside the image alone; NaN wins the maximum. Program (i, j, k): output row
// i of all images, four pixels of it, 16 channels.
builtin.module {
  tile.kernel @pool3x3_stride2 attributes {symbols = ["B", "H", "W", "OH", "OW", "C"], grid = ["B*OH", "ceildiv(OW, 4)", "ceildiv(C, 16)"], access = ["read", "write", "write"]} {
  ^bb0(%x: memref<?x?x?x?xf32>, %top: memref<?x?x?x?xf32>, %mean: memref<?x?x?x?xf32>, %B: index, %H: index, %W: index, %OH: index, %OW: index, %C: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %i = tile.program_id {dim = 0 : i64}
    %j = tile.program_id {dim = 1 : i64}
    %k = tile.program_id {dim = 2 : i64}
    %n = arith.divui %i, %OH : index
    %oh = arith.remui %i, %OH : index
    %ow = arith.muli %j, %c4 : index
    %c = arith.muli %k, %c16 : index
    %oh2 = arith.muli %oh, %c2 : index
    %ih0 = arith.subi %oh2, %c1 : index
    %ow2 = arith.muli %ow, %c2 : index
    %iw0 = arith.subi %ow2, %c1 : index
    %low = arith.constant 0xff800000 : f32
    %m0 = tile.splat %low : (f32) -> vector<4x16xf32>
    %zero = arith.constant dense<0.000000e+00> : vector<4x16xf32>
    %none = arith.constant dense<0.000000e+00> : vector<4xf32>
    %lane = tile.iota : vector<4xindex>
    %two = arith.constant dense<2> : vector<4xindex>
    %lane2 = arith.muli %lane, %two : vector<4xindex>
    %width = tile.splat %W : (index) -> vector<4xindex>
    %m9, %s9, %n9 = scf.for %kh = %c0 to %c3 step %c1 iter_args(%m = %m0, %s = %zero, %q = %none) -> (vector<4x16xf32>, vector<4x16xf32>, vector<4xf32>) {
      %ih = arith.addi %ih0, %kh : index
      %in_height = arith.cmpi ult, %ih, %H : index
      %row = tile.cast %in_height : (i1) -> f32
      %rows = tile.splat %row : (f32) -> vector<4xf32>
      %m3, %s3, %n3 = scf.for %kw = %c0 to %c3 step %c1 iter_args(%ma = %m, %sa = %s, %qa = %q) -> (vector<4x16xf32>, vector<4x16xf32>, vector<4xf32>) {
        %iw = arith.addi %iw0, %kw : index
        %high = tile.load %x[%n, %ih, %iw, %c] {shape = array<i64: 1, 1, 4, 16>, step = array<i64: 1, 1, 2, 1>, in_bounds = array<i64: 0>, pad = 0xff800000 : f32} : memref<?x?x?x?xf32>[index, index, index, index] -> vector<4x16xf32>
        %xt = tile.load %x[%n, %ih, %iw, %c] {shape = array<i64: 1, 1, 4, 16>, step = array<i64: 1, 1, 2, 1>, in_bounds = array<i64: 0>} : memref<?x?x?x?xf32>[index, index, index, index] -> vector<4x16xf32>
        %first = tile.splat %iw : (index) -> vector<4xindex>
        %cols = arith.addi %first, %lane2 : vector<4xindex>
        %in_width = tile.compare %cols, %width {kind = "lt", unsigned} : (vector<4xindex>, vector<4xindex>) -> vector<4xi1>
        %col = tile.cast %in_width : (vector<4xi1>) -> vector<4xf32>
        %m1 = arith.maximumf %ma, %high : vector<4x16xf32>
        %s1 = arith.addf %sa, %xt : vector<4x16xf32>
        %q1 = math.fma %rows, %col, %qa : vector<4xf32>
        scf.yield %m1, %s1, %q1 : vector<4x16xf32>, vector<4x16xf32>, vector<4xf32>
      }
      scf.yield %m3, %s3, %n3 : vector<4x16xf32>, vector<4x16xf32>, vector<4xf32>
    }
    %count = tile.broadcast %n9 {dims = array<i64: 0>} : (vector<4xf32>) -> vector<4x16xf32>
    %y = arith.divf %s9, %count : vector<4x16xf32>
    tile.store %m9, %top[%n, %oh, %ow, %c] {shape = array<i64: 1, 1, 4, 16>, in_bounds = array<i64: 0, 1>, unique} : vector<4x16xf32>, memref<?x?x?x?xf32>[index, index, index, index]
    tile.store %y, %mean[%n, %oh, %ow, %c] {shape = array<i64: 1, 1, 4, 16>, in_bounds = array<i64: 0, 1>, unique} : vector<4x16xf32>, memref<?x?x?x?xf32>[index, index, index, index]
    tile.return
  }
}
