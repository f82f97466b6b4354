// Depthwise 3x3 convolution of 24 channels, strides 1 and 2, padding 1.
// Program (i, j, k): four windows along a row j of an image, 16 channels beside each other.
builtin.module {
  tile.kernel @depthwise_rows attributes {symbols = ["n0", "n1", "n2", "workers"], grid = ["ceildiv(floordiv(n2 - 1, 2) + 1, 4)", "n0*n1", "2"], access = ["read", "read", "write"]} {
  ^bb0(%0: memref<?x?x?x24xf32>, %1: memref<2x3x3x1x16xf32>, %2: memref<?x24xf32>, %3: index, %4: index, %5: index, %6: index):
    %7 = arith.constant 0 : index
    %8 = arith.constant 4 : index
    %9 = arith.constant 1 : index
    %10 = arith.constant 2 : index
    %11 = arith.constant -1 : index
    %12 = arith.addi %5, %11 : index
    %13 = arith.divui %12, %10 : index
    %14 = arith.addi %13, %9 : index
    %15 = arith.constant 24 : index
    %16 = arith.constant 16 : index
    %17 = arith.constant dense<0.000000e+00> : vector<4x16xf32>
    %18 = arith.constant 8 : index
    %19 = arith.constant 3 : index
    %20 = tile.program_id {dim = 1 : i64}
    %21 = arith.remui %20, %4 : index
    %22 = arith.divui %20, %4 : index
    %23 = tile.program_id {dim = 0 : i64}
    %24 = arith.muli %23, %8 : index
    %25 = arith.subi %21, %9 : index
    %26 = arith.muli %24, %10 : index
    %27 = arith.subi %26, %9 : index
    %28 = arith.muli %20, %14 : index
    %29 = arith.addi %28, %24 : index
    %30 = arith.addi %28, %14 : index
    %31 = tile.program_id {dim = 2 : i64}
    %32 = arith.muli %7, %15 : index
    %33 = arith.muli %31, %16 : index
    %34 = tile.compare %25, %7 {kind = "ge"} : (index, index) -> i1
    %35 = arith.addi %25, %10 : index
    %36 = tile.compare %35, %4 {kind = "lt"} : (index, index) -> i1
    %37 = tile.compare %27, %7 {kind = "ge"} : (index, index) -> i1
    %38 = arith.addi %27, %18 : index
    %39 = tile.compare %38, %5 {kind = "lt"} : (index, index) -> i1
    %40 = arith.andi %34, %36 : i1
    %41 = arith.andi %40, %37 : i1
    %42 = arith.andi %41, %39 : i1
    %43 = scf.if %42 -> (vector<4x16xf32>) {
      %44 = scf.for %45 = %7 to %19 step %9 iter_args(%46 = %17) -> (vector<4x16xf32>) {
        %47 = scf.for %48 = %7 to %19 step %9 iter_args(%49 = %46) -> (vector<4x16xf32>) {
          %50 = arith.addi %25, %45 : index
          %51 = arith.addi %27, %48 : index
          %52 = tile.load %0[%22, %50, %51, %33] {shape = array<i64: 1, 1, 4, 16>, step = array<i64: 1, 1, 2, 1>, in_bounds = array<i64: 0, 1, 2>} : memref<?x?x?x24xf32>[index, index, index, index] -> vector<4x16xf32>
          %53 = tile.load %1[%31, %45, %48, %7, %7] {shape = array<i64: 1, 1, 1, 1, 16>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<2x3x3x1x16xf32>[index, index, index, index, index] -> vector<1x1x1x1x16xf32>
          %54 = tile.reshape %53 : (vector<1x1x1x1x16xf32>) -> vector<1x1x16xf32>
          %55 = tile.reshape %54 : (vector<1x1x16xf32>) -> vector<16xf32>
          %56 = tile.broadcast %55 {dims = array<i64: 1>} : (vector<16xf32>) -> vector<4x16xf32>
          %57 = math.fma %52, %56, %49 : vector<4x16xf32>
          scf.yield %57 : vector<4x16xf32>
        }
        scf.yield %47 : vector<4x16xf32>
      }
      scf.yield %44 : vector<4x16xf32>
    } else {
      %58 = scf.for %59 = %7 to %19 step %9 iter_args(%60 = %17) -> (vector<4x16xf32>) {
        %61 = scf.for %62 = %7 to %19 step %9 iter_args(%63 = %60) -> (vector<4x16xf32>) {
          %64 = arith.addi %25, %59 : index
          %65 = arith.addi %27, %62 : index
          %66 = tile.load %0[%22, %64, %65, %33] {shape = array<i64: 1, 1, 4, 16>, step = array<i64: 1, 1, 2, 1>, in_bounds = array<i64: 0>} : memref<?x?x?x24xf32>[index, index, index, index] -> vector<4x16xf32>
          %67 = tile.load %1[%31, %59, %62, %7, %7] {shape = array<i64: 1, 1, 1, 1, 16>, in_bounds = array<i64: 0, 1, 2, 3, 4>} : memref<2x3x3x1x16xf32>[index, index, index, index, index] -> vector<1x1x1x1x16xf32>
          %68 = tile.reshape %67 : (vector<1x1x1x1x16xf32>) -> vector<1x1x16xf32>
          %69 = tile.reshape %68 : (vector<1x1x16xf32>) -> vector<16xf32>
          %70 = tile.broadcast %69 {dims = array<i64: 1>} : (vector<16xf32>) -> vector<4x16xf32>
          %71 = math.fma %66, %70, %63 : vector<4x16xf32>
          scf.yield %71 : vector<4x16xf32>
        }
        scf.yield %61 : vector<4x16xf32>
      }
      scf.yield %58 : vector<4x16xf32>
    }
    tile.store %43, %2[%29, %33] limit[%30] {shape = array<i64: 4, 16>, limit_dims = array<i64: 0>, unique} : vector<4x16xf32>, memref<?x24xf32>[index, index]
    tile.return
  }
}
