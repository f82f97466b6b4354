// 3x3 convolution of stride 1 and padding 1 by Winograd's F(2x2, 3x3), channels last in blocks of 16.
// Program (i, j): four tiles of 2x2 output pixels, 16 output channels. The weights come transformed,
// [CO/16, C/16, 16 points, 16, 16]; the input and the output are transformed here, rows then columns.
builtin.module {
  tile.kernel @winograd_conv3x3 attributes {symbols = ["B", "TH", "TW", "CB", "OB"], grid = ["ceildiv(B*TH*TW, 4)", "OB"], access = ["read", "read", "write"]} {
  ^bb0(%x: memref<?x?x?x?x16xf32>, %u: memref<?x?x16x16x16xf32>, %out: memref<?x?x?x?x16xf32>, %B: index, %TH: index, %TW: index, %CB: index, %OB: index):
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %c12 = arith.constant 12 : index
    %c16 = arith.constant 16 : index
    %i = tile.program_id {dim = 0 : i64}
    %j = tile.program_id {dim = 1 : i64}
    %half = tile.scratch : memref<16x4x16xf32>
    %v = tile.scratch : memref<16x4x16xf32>
    %m = tile.scratch : memref<16x4x16xf32>
    %p0 = arith.muli %i, %c4 : index
    %lane = tile.iota : vector<4xindex>
    %p0s = tile.splat %p0 : (index) -> vector<4xindex>
    %p = arith.addi %lane, %p0s : vector<4xindex>
    %tws = tile.splat %TW : (index) -> vector<4xindex>
    %ths = tile.splat %TH : (index) -> vector<4xindex>
    %tw = arith.remui %p, %tws : vector<4xindex>
    %row = arith.divui %p, %tws : vector<4xindex>
    %th = arith.remui %row, %ths : vector<4xindex>
    %n = arith.divui %row, %ths : vector<4xindex>
    %two = arith.constant dense<2> : vector<4xindex>
    %one = arith.constant dense<1> : vector<4xindex>
    %oh0 = arith.muli %th, %two : vector<4xindex>
    %ow0 = arith.muli %tw, %two : vector<4xindex>
    %ih0 = arith.subi %oh0, %one : vector<4xindex>
    %iw0 = arith.subi %ow0, %one : vector<4xindex>
    %zero = arith.constant dense<0.000000e+00> : vector<4x16xf32>
    scf.for %k = %c0 to %c16 step %c1 {
      tile.store %zero, %m[%k, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
    }
    scf.for %cb = %c0 to %CB step %c1 {
      scf.for %r = %c0 to %c4 step %c1 {
        %rs = tile.splat %r : (index) -> vector<4xindex>
        %ih = arith.addi %ih0, %rs : vector<4xindex>
        %d0 = tile.load %x[%n, %ih, %iw0, %cb, %c0] {shape = array<i64: 4, 1, 1, 1, 16>, zip = array<i64: 0, 1, 2>, in_bounds = array<i64: 3, 4>} : memref<?x?x?x?x16xf32>[vector<4xindex>, vector<4xindex>, vector<4xindex>, index, index] -> vector<4x16xf32>
        %iws1 = tile.splat %c1 : (index) -> vector<4xindex>
        %iw1 = arith.addi %iw0, %iws1 : vector<4xindex>
        %d1 = tile.load %x[%n, %ih, %iw1, %cb, %c0] {shape = array<i64: 4, 1, 1, 1, 16>, zip = array<i64: 0, 1, 2>, in_bounds = array<i64: 3, 4>} : memref<?x?x?x?x16xf32>[vector<4xindex>, vector<4xindex>, vector<4xindex>, index, index] -> vector<4x16xf32>
        %iws2 = tile.splat %c2 : (index) -> vector<4xindex>
        %iw2 = arith.addi %iw0, %iws2 : vector<4xindex>
        %d2 = tile.load %x[%n, %ih, %iw2, %cb, %c0] {shape = array<i64: 4, 1, 1, 1, 16>, zip = array<i64: 0, 1, 2>, in_bounds = array<i64: 3, 4>} : memref<?x?x?x?x16xf32>[vector<4xindex>, vector<4xindex>, vector<4xindex>, index, index] -> vector<4x16xf32>
        %iws3 = tile.splat %c3 : (index) -> vector<4xindex>
        %iw3 = arith.addi %iw0, %iws3 : vector<4xindex>
        %d3 = tile.load %x[%n, %ih, %iw3, %cb, %c0] {shape = array<i64: 4, 1, 1, 1, 16>, zip = array<i64: 0, 1, 2>, in_bounds = array<i64: 3, 4>} : memref<?x?x?x?x16xf32>[vector<4xindex>, vector<4xindex>, vector<4xindex>, index, index] -> vector<4x16xf32>
        %t0 = arith.subf %d0, %d2 : vector<4x16xf32>
        %t1 = arith.addf %d1, %d2 : vector<4x16xf32>
        %t2 = arith.subf %d2, %d1 : vector<4x16xf32>
        %t3 = arith.subf %d1, %d3 : vector<4x16xf32>
        %at = arith.muli %r, %c4 : index
        %at1 = arith.addi %at, %c1 : index
        %at2 = arith.addi %at, %c2 : index
        %at3 = arith.addi %at, %c3 : index
        tile.store %t0, %half[%at, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
        tile.store %t1, %half[%at1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
        tile.store %t2, %half[%at2, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
        tile.store %t3, %half[%at3, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
      }
      scf.for %s = %c0 to %c4 step %c1 {
        %s1 = arith.addi %s, %c4 : index
        %s2 = arith.addi %s, %c8 : index
        %s3 = arith.addi %s, %c12 : index
        %d0_1 = tile.load %half[%s, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
        %d1_1 = tile.load %half[%s1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
        %d2_1 = tile.load %half[%s2, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
        %d3_1 = tile.load %half[%s3, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
        %t0_1 = arith.subf %d0_1, %d2_1 : vector<4x16xf32>
        %t1_1 = arith.addf %d1_1, %d2_1 : vector<4x16xf32>
        %t2_1 = arith.subf %d2_1, %d1_1 : vector<4x16xf32>
        %t3_1 = arith.subf %d1_1, %d3_1 : vector<4x16xf32>
        tile.store %t0_1, %v[%s, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
        tile.store %t1_1, %v[%s1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
        tile.store %t2_1, %v[%s2, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
        tile.store %t3_1, %v[%s3, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
      }
      scf.for %k_1 = %c0 to %c16 step %c1 {
        %vt = tile.load %v[%k_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
        %ut = tile.load %u[%j, %cb, %k_1, %c0, %c0] {shape = array<i64: 1, 1, 1, 16, 16>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<?x?x16x16x16xf32>[index, index, index, index, index] -> vector<16x16xf32>
        %mt = tile.load %m[%k_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
        %mn = tile.dot %vt, %ut, %mt {contract = [[1 : i64, 0 : i64]]} : (vector<4x16xf32>, vector<16x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
        tile.store %mn, %m[%k_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
      }
    }
    scf.for %s_1 = %c0 to %c4 step %c1 {
      %s1_1 = arith.addi %s_1, %c4 : index
      %s2_1 = arith.addi %s_1, %c8 : index
      %s3_1 = arith.addi %s_1, %c12 : index
      %d0_2 = tile.load %m[%s_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
      %d1_2 = tile.load %m[%s1_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
      %d2_2 = tile.load %m[%s2_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
      %d3_2 = tile.load %m[%s3_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
      %a01 = arith.addf %d0_2, %d1_2 : vector<4x16xf32>
      %t0_2 = arith.addf %a01, %d2_2 : vector<4x16xf32>
      %s12 = arith.subf %d1_2, %d2_2 : vector<4x16xf32>
      %t1_2 = arith.subf %s12, %d3_2 : vector<4x16xf32>
      tile.store %t0_2, %half[%s_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
      tile.store %t1_2, %half[%s1_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>, unique} : vector<4x16xf32>, memref<16x4x16xf32>[index, index, index]
    }
    scf.for %r_1 = %c0 to %c2 step %c1 {
      %at_1 = arith.muli %r_1, %c4 : index
      %rs_1 = tile.splat %r_1 : (index) -> vector<4xindex>
      %oh = arith.addi %oh0, %rs_1 : vector<4xindex>
      %ow1 = arith.addi %ow0, %one : vector<4xindex>
      %at1_1 = arith.addi %at_1, %c1 : index
      %at2_1 = arith.addi %at_1, %c2 : index
      %at3_1 = arith.addi %at_1, %c3 : index
      %d0_3 = tile.load %half[%at_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
      %d1_3 = tile.load %half[%at1_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
      %d2_3 = tile.load %half[%at2_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
      %d3_3 = tile.load %half[%at3_1, %c0, %c0] {shape = array<i64: 1, 4, 16>, in_bounds = array<i64: 0, 1, 2>} : memref<16x4x16xf32>[index, index, index] -> vector<4x16xf32>
      %a01_1 = arith.addf %d0_3, %d1_3 : vector<4x16xf32>
      %t0_3 = arith.addf %a01_1, %d2_3 : vector<4x16xf32>
      %s12_1 = arith.subf %d1_3, %d2_3 : vector<4x16xf32>
      %t1_3 = arith.subf %s12_1, %d3_3 : vector<4x16xf32>
      tile.store %t0_3, %out[%n, %oh, %ow0, %j, %c0] {shape = array<i64: 4, 1, 1, 1, 16>, zip = array<i64: 0, 1, 2>, in_bounds = array<i64: 3, 4>, unique} : vector<4x16xf32>, memref<?x?x?x?x16xf32>[vector<4xindex>, vector<4xindex>, vector<4xindex>, index, index]
      tile.store %t1_3, %out[%n, %oh, %ow1, %j, %c0] {shape = array<i64: 4, 1, 1, 1, 16>, zip = array<i64: 0, 1, 2>, in_bounds = array<i64: 3, 4>, unique} : vector<4x16xf32>, memref<?x?x?x?x16xf32>[vector<4xindex>, vector<4xindex>, vector<4xindex>, index, index]
    }
    tile.return
  }
}
