; The CPU runtime: worker threads, barriers, and the walker of plans. What differs between
; platforms (@pause, @settle, @wait, @wake, @clock, @enter_float_mode, @leave_float_mode) is added by
; runtime.py; step.py and pool.py lay memory out as it is here.

; One step: the tables of its plan, and what the workers share while they walk it.
%step = type {
  ptr, ;  0 records: [6 x i64], an opcode and its operands
  ptr, ;  1 calls: [6 x i64]: kernel, first argument, number of arguments, three grid extents
  ptr, ;  2 arguments: [2 x i64]: a base and a value, to be added
  ptr, ;  3 kernels: their addresses
  ptr, ;  4 expressions: [4 x i64]: operation, two values, the value it gives
  i64, ;  5 number of expressions
  ptr, ;  6 values
  ptr, ;  7 bases
  ptr, ;  8 counters: a cache line for each launch
  i64, ;  9 bytes of counters
  ptr, ; 10 areas: for each worker a %worker, arguments and scratch
  i64, ; 11 bytes of an area
  i64, ; 12 number of workers
  ptr, ; 13 pool
  i64, ; 14 nanoseconds between polls, 0 for none
  i64, ; 15 time of the next poll
  i64, ; 16 the record at which worker 0 goes on, -1 after the last
  i32, ; 17 error word
  i32, ; 18 whether the rest is to be skipped
  ptr, ; 19 trace: for each worker a %trace and its events, null for none
  i64  ; 20 bytes of a worker's trace
}

; What one worker did and when; those events that find no room are counted, not kept.
%trace = type {
  i64, ; 0 events so far
  i64, ; 1 events there is room for
  [48 x i8]
}

; A call and the number of its programs that were run, or -1 and 0 for waiting at a barrier; from
; when, until when.
%event = type { i64, i64, i64, i64 }

; What a kernel is told: program ids, scratch, error word.
%worker = type { i64, i64, i64, ptr, ptr }

; A pool, each field in a cache line of its own; mailboxes follow, one for each worker but 0.
%pool = type {
  i32, [60 x i8], ; 0 arrived at the barrier
  i32, [60 x i8], ; 2 barriers passed
  i32, [60 x i8]  ; 4 asleep at the barrier
}

; Where a worker waits for steps.
%mailbox = type {
  i32, ; 0 steps posted
  i32, ; 1 whether the worker sleeps
  i64, ; 2 index of the worker
  ptr, ; 3 step, null to stop
  [40 x i8]
}

declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i32 @sched_yield()

; Wait until %word is no longer %old: pause for 4 microseconds, offer the processor to others until
; 30 have gone, then sleep. The thread that is to change the word may need this very processor.
define internal void @await_change(ptr %word, i32 %old, ptr %sleepers) noinline {
entry:
  %start = call i64 @clock()
  %patience = add i64 %start, 4000
  %limit = add i64 %start, 30000
  br label %spin
spin:
  %round = phi i32 [ 0, %entry ], [ %next, %again ], [ %next, %late ], [ %next, %offer ]
  %seen = load atomic i32, ptr %word acquire, align 4
  %changed = icmp ne i32 %seen, %old
  br i1 %changed, label %done, label %again.pause
again.pause:
  call void @pause()
  %next = add i32 %round, 1
  %few = and i32 %next, 15
  %due = icmp eq i32 %few, 0
  br i1 %due, label %look, label %again
again:
  br label %spin
look:
  %time = call i64 @clock()
  %over = icmp sgt i64 %time, %limit
  br i1 %over, label %sleep, label %late
late:
  %impatient = icmp sgt i64 %time, %patience
  br i1 %impatient, label %offer, label %spin
offer:
  %offered = call i32 @sched_yield()
  br label %spin
sleep:
  %up = atomicrmw add ptr %sleepers, i32 1 seq_cst
  call void @wait(ptr %word, i32 %old)
  %down = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  %woken = load atomic i32, ptr %word acquire, align 4
  %still = icmp eq i32 %woken, %old
  br i1 %still, label %sleep, label %done
done:
  ret void
}

; Change %word and wake whoever sleeps on it.
define internal void @announce(ptr %word, ptr %sleepers) {
  ; Sequentially consistent on both sides: either the sleeper sees the change or we see the sleeper.
  %old = atomicrmw add ptr %word, i32 1 seq_cst
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %rouse, label %done
rouse:
  call void @wake(ptr %word)
  br label %done
done:
  ret void
}

; Return once all %workers have come here.
define internal void @barrier(ptr %pool, i64 %workers) {
entry:
  %alone = icmp eq i64 %workers, 1
  br i1 %alone, label %done, label %arrive
arrive:
  %arrived = getelementptr %pool, ptr %pool, i64 0, i32 0
  %passed = getelementptr %pool, ptr %pool, i64 0, i32 2
  %sleepers = getelementptr %pool, ptr %pool, i64 0, i32 4
  %count = trunc i64 %workers to i32
  %last = sub i32 %count, 1
  %phase = load atomic i32, ptr %passed acquire, align 64
  %before = atomicrmw add ptr %arrived, i32 1 acq_rel
  %is.last = icmp eq i32 %before, %last
  br i1 %is.last, label %open, label %stay
open:
  store atomic i32 0, ptr %arrived monotonic, align 64
  call void @announce(ptr %passed, ptr %sleepers)
  br label %done
stay:
  call void @await_change(ptr %passed, i32 %phase, ptr %sleepers)
  br label %done
done:
  ret void
}

; Quotient rounded down; by zero, 0.
define internal i64 @floordiv(i64 %a, i64 %b) {
  %negated = sub i64 0, %a
  %zero = icmp eq i64 %b, 0
  %minus = icmp eq i64 %b, -1
  %special = or i1 %zero, %minus
  %divisor = select i1 %special, i64 1, i64 %b
  %quotient = sdiv i64 %a, %divisor
  %product = mul i64 %quotient, %divisor
  %inexact = icmp ne i64 %product, %a
  %signs = xor i64 %a, %divisor
  %negative = icmp slt i64 %signs, 0
  %down = and i1 %inexact, %negative
  %less = sext i1 %down to i64
  %floor = add i64 %quotient, %less
  %at.minus = select i1 %minus, i64 %negated, i64 %floor
  %result = select i1 %zero, i64 0, i64 %at.minus
  ret i64 %result
}

; Compute every expression from the values before it.
define void @evaluate(ptr %step) {
entry:
  %expressions.at = getelementptr %step, ptr %step, i64 0, i32 4
  %expressions = load ptr, ptr %expressions.at
  %number.at = getelementptr %step, ptr %step, i64 0, i32 5
  %number = load i64, ptr %number.at
  %values.at = getelementptr %step, ptr %step, i64 0, i32 6
  %values = load ptr, ptr %values.at
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %store ]
  %more = icmp ult i64 %i, %number
  br i1 %more, label %body, label %done
body:
  %operation.at = getelementptr [4 x i64], ptr %expressions, i64 %i, i64 0
  %operation = load i64, ptr %operation.at
  %a.id.at = getelementptr [4 x i64], ptr %expressions, i64 %i, i64 1
  %a.id = load i64, ptr %a.id.at
  %b.id.at = getelementptr [4 x i64], ptr %expressions, i64 %i, i64 2
  %b.id = load i64, ptr %b.id.at
  %a.at = getelementptr i64, ptr %values, i64 %a.id
  %a = load i64, ptr %a.at
  %b.at = getelementptr i64, ptr %values, i64 %b.id
  %b = load i64, ptr %b.at
  switch i64 %operation, label %add [
    i64 1, label %mul
    i64 2, label %floordiv
    i64 3, label %ceildiv
    i64 4, label %mod
    i64 5, label %min
    i64 6, label %max
  ]
add:
  %sum = add i64 %a, %b
  br label %store
mul:
  %product = mul i64 %a, %b
  br label %store
floordiv:
  %floor = call i64 @floordiv(i64 %a, i64 %b)
  br label %store
ceildiv:
  %minus.a = sub i64 0, %a
  %minus.ceil = call i64 @floordiv(i64 %minus.a, i64 %b)
  %ceil = sub i64 0, %minus.ceil
  br label %store
mod:
  %quotient = call i64 @floordiv(i64 %a, i64 %b)
  %whole = mul i64 %quotient, %b
  %rest = sub i64 %a, %whole
  %by.zero = icmp eq i64 %b, 0
  %remainder = select i1 %by.zero, i64 0, i64 %rest
  br label %store
min:
  %smaller = call i64 @llvm.smin.i64(i64 %a, i64 %b)
  br label %store
max:
  %larger = call i64 @llvm.smax.i64(i64 %a, i64 %b)
  br label %store
store:
  %y = phi i64 [ %sum, %add ], [ %product, %mul ], [ %floor, %floordiv ], [ %ceil, %ceildiv ],
               [ %remainder, %mod ], [ %smaller, %min ], [ %larger, %max ]
  %y.id.at = getelementptr [4 x i64], ptr %expressions, i64 %i, i64 3
  %y.id = load i64, ptr %y.id.at
  %y.at = getelementptr i64, ptr %values, i64 %y.id
  store i64 %y, ptr %y.at
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}

; Extent %dim of a call's grid, at least 0.
define internal i64 @grid(ptr %call, i64 %dim, ptr %values) {
  %word = add i64 %dim, 3
  %id.at = getelementptr i64, ptr %call, i64 %word
  %id = load i64, ptr %id.at
  %extent.at = getelementptr i64, ptr %values, i64 %id
  %extent = load i64, ptr %extent.at
  %result = call i64 @llvm.smax.i64(i64 %extent, i64 0)
  ret i64 %result
}

; The number of programs of a call.
define internal i64 @programs(ptr %call, ptr %values) {
  %x = call i64 @grid(ptr %call, i64 0, ptr %values)
  %y = call i64 @grid(ptr %call, i64 1, ptr %values)
  %z = call i64 @grid(ptr %call, i64 2, ptr %values)
  %xy = mul i64 %x, %y
  %xyz = mul i64 %xy, %z
  ret i64 %xyz
}

; Write a call's arguments: each is a base plus a value.
define internal void @build_arguments(ptr %step, ptr %call, ptr %values, ptr %to) {
entry:
  %arguments.at = getelementptr %step, ptr %step, i64 0, i32 2
  %arguments = load ptr, ptr %arguments.at
  %bases.at = getelementptr %step, ptr %step, i64 0, i32 7
  %bases = load ptr, ptr %bases.at
  %first.at = getelementptr i64, ptr %call, i64 1
  %first = load i64, ptr %first.at
  %number.at = getelementptr i64, ptr %call, i64 2
  %number = load i64, ptr %number.at
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp ult i64 %i, %number
  br i1 %more, label %body, label %done
body:
  %which = add i64 %first, %i
  %base.id.at = getelementptr [2 x i64], ptr %arguments, i64 %which, i64 0
  %base.id = load i64, ptr %base.id.at
  %value.id.at = getelementptr [2 x i64], ptr %arguments, i64 %which, i64 1
  %value.id = load i64, ptr %value.id.at
  %base.at = getelementptr i64, ptr %bases, i64 %base.id
  %base = load i64, ptr %base.at
  %value.at = getelementptr i64, ptr %values, i64 %value.id
  %value = load i64, ptr %value.at
  %word = add i64 %base, %value
  %to.at = getelementptr i64, ptr %to, i64 %i
  store i64 %word, ptr %to.at
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}

; Run programs %from up to %to of one call; program id 0 goes round fastest.
define internal void @run_programs(ptr %step, ptr %call, ptr %area, i64 %from, i64 %to) {
entry:
  %kernels.at = getelementptr %step, ptr %step, i64 0, i32 3
  %kernels = load ptr, ptr %kernels.at
  %values.at = getelementptr %step, ptr %step, i64 0, i32 6
  %values = load ptr, ptr %values.at
  %skip.at = getelementptr %step, ptr %step, i64 0, i32 18
  %kernel.id = load i64, ptr %call
  %kernel.at = getelementptr ptr, ptr %kernels, i64 %kernel.id
  %kernel = load ptr, ptr %kernel.at
  %arguments = getelementptr i8, ptr %area, i64 64
  call void @build_arguments(ptr %step, ptr %call, ptr %values, ptr %arguments)
  %x.extent = call i64 @grid(ptr %call, i64 0, ptr %values)
  %y.extent = call i64 @grid(ptr %call, i64 1, ptr %values)
  %x.at = getelementptr %worker, ptr %area, i64 0, i32 0
  %y.at = getelementptr %worker, ptr %area, i64 0, i32 1
  %z.at = getelementptr %worker, ptr %area, i64 0, i32 2
  %x.from = urem i64 %from, %x.extent
  %yz.from = udiv i64 %from, %x.extent
  %y.from = urem i64 %yz.from, %y.extent
  %z.from = udiv i64 %yz.from, %y.extent
  br label %head
head:
  %i = phi i64 [ %from, %entry ], [ %next, %run ]
  %x = phi i64 [ %x.from, %entry ], [ %x.next, %run ]
  %y = phi i64 [ %y.from, %entry ], [ %y.next, %run ]
  %z = phi i64 [ %z.from, %entry ], [ %z.next, %run ]
  %skip = load atomic i32, ptr %skip.at monotonic, align 4
  %skipped = icmp ne i32 %skip, 0
  br i1 %skipped, label %done, label %run
run:
  store i64 %x, ptr %x.at
  store i64 %y, ptr %y.at
  store i64 %z, ptr %z.at
  call void %kernel(ptr %arguments, ptr %area)
  %x.more = add i64 %x, 1
  %x.over = icmp eq i64 %x.more, %x.extent
  %x.next = select i1 %x.over, i64 0, i64 %x.more
  %y.step = zext i1 %x.over to i64
  %y.more = add i64 %y, %y.step
  %y.over = icmp eq i64 %y.more, %y.extent
  %y.next = select i1 %y.over, i64 0, i64 %y.more
  %z.step = zext i1 %y.over to i64
  %z.next = add i64 %z, %z.step
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %to
  br i1 %more, label %head, label %done
done:
  ret void
}

; The time if the step is traced, else 0.
define internal i64 @begin(ptr %step) {
entry:
  %trace.at = getelementptr %step, ptr %step, i64 0, i32 19
  %trace = load ptr, ptr %trace.at
  %untraced = icmp eq ptr %trace, null
  br i1 %untraced, label %done, label %look
look:
  %time = call i64 @clock()
  br label %done
done:
  %result = phi i64 [ 0, %entry ], [ %time, %look ]
  ret i64 %result
}

; Note in a worker's trace what has gone on since %from, which @begin gave.
define internal void @note(ptr %step, i64 %index, i64 %what, i64 %number, i64 %from) {
entry:
  %untraced = icmp eq i64 %from, 0
  br i1 %untraced, label %done, label %count
count:
  %until = call i64 @clock()
  %traces.at = getelementptr %step, ptr %step, i64 0, i32 19
  %traces = load ptr, ptr %traces.at
  %stride.at = getelementptr %step, ptr %step, i64 0, i32 20
  %stride = load i64, ptr %stride.at
  %offset = mul i64 %index, %stride
  %trace = getelementptr i8, ptr %traces, i64 %offset
  %so.far = load i64, ptr %trace
  %room.at = getelementptr %trace, ptr %trace, i64 0, i32 1
  %room = load i64, ptr %room.at
  %more = add i64 %so.far, 1
  store i64 %more, ptr %trace
  %fits = icmp ult i64 %so.far, %room
  br i1 %fits, label %keep, label %done
keep:
  %events = getelementptr %trace, ptr %trace, i64 1
  %event = getelementptr %event, ptr %events, i64 %so.far
  store i64 %what, ptr %event
  %number.at = getelementptr %event, ptr %event, i64 0, i32 1
  store i64 %number, ptr %number.at
  %from.at = getelementptr %event, ptr %event, i64 0, i32 2
  store i64 %from, ptr %from.at
  %until.at = getelementptr %event, ptr %event, i64 0, i32 3
  store i64 %until, ptr %until.at
  br label %done
done:
  ret void
}

; Wait at the barrier, and note it.
define internal void @meet(ptr %step, i64 %index) {
  %workers.at = getelementptr %step, ptr %step, i64 0, i32 12
  %workers = load i64, ptr %workers.at
  %pool.at = getelementptr %step, ptr %step, i64 0, i32 13
  %pool = load ptr, ptr %pool.at
  %from = call i64 @begin(ptr %step)
  call void @barrier(ptr %pool, i64 %workers)
  call void @note(ptr %step, i64 %index, i64 -1, i64 0, i64 %from)
  ret void
}

; Run programs %from up to %to of a launch, whose calls lie one after another.
define internal void @run_share(ptr %step, i64 %index, ptr %record, ptr %area, i64 %from, i64 %to) {
entry:
  %calls.at = getelementptr %step, ptr %step, i64 0, i32 1
  %calls = load ptr, ptr %calls.at
  %values.at = getelementptr %step, ptr %step, i64 0, i32 6
  %values = load ptr, ptr %values.at
  %first.at = getelementptr i64, ptr %record, i64 1
  %first = load i64, ptr %first.at
  br label %head
head:
  %which = phi i64 [ %first, %entry ], [ %which.next, %tail ]
  %start = phi i64 [ 0, %entry ], [ %stop, %tail ]
  %at = phi i64 [ %from, %entry ], [ %at.next, %tail ]
  %call = getelementptr [6 x i64], ptr %calls, i64 %which
  %size = call i64 @programs(ptr %call, ptr %values)
  %stop = add i64 %start, %size
  %here = icmp ult i64 %at, %stop
  br i1 %here, label %run, label %tail
run:
  %end = call i64 @llvm.smin.i64(i64 %to, i64 %stop)
  %local.from = sub i64 %at, %start
  %local.to = sub i64 %end, %start
  %time = call i64 @begin(ptr %step)
  call void @run_programs(ptr %step, ptr %call, ptr %area, i64 %local.from, i64 %local.to)
  %number = sub i64 %local.to, %local.from
  call void @note(ptr %step, i64 %index, i64 %which, i64 %number, i64 %time)
  br label %tail
tail:
  %at.next = phi i64 [ %at, %head ], [ %end, %run ]
  %which.next = add i64 %which, 1
  %more = icmp ult i64 %at.next, %to
  br i1 %more, label %head, label %done
done:
  call void @settle()
  ret void
}

; Whether worker 0 should let the caller look for signals.
define internal i1 @poll_due(ptr %step, i64 %index) {
entry:
  %interval.at = getelementptr %step, ptr %step, i64 0, i32 14
  %interval = load i64, ptr %interval.at
  %never = icmp eq i64 %interval, 0
  %other = icmp ne i64 %index, 0
  %no = or i1 %never, %other
  br i1 %no, label %done, label %look
look:
  %next.at = getelementptr %step, ptr %step, i64 0, i32 15
  %next = load i64, ptr %next.at
  %time = call i64 @clock()
  %due = icmp sge i64 %time, %next
  br i1 %due, label %set, label %done
set:
  %later = add i64 %time, %interval
  store i64 %later, ptr %next.at
  br label %done
done:
  %result = phi i1 [ false, %entry ], [ false, %look ], [ true, %set ]
  ret i1 %result
}

; Take shares of a launch until none is left. True if worker 0 has to poll before it goes on.
define internal i1 @run_launch(ptr %step, i64 %index, ptr %record) {
entry:
  %calls.at = getelementptr %step, ptr %step, i64 0, i32 1
  %calls = load ptr, ptr %calls.at
  %values.at = getelementptr %step, ptr %step, i64 0, i32 6
  %values = load ptr, ptr %values.at
  %counters.at = getelementptr %step, ptr %step, i64 0, i32 8
  %counters = load ptr, ptr %counters.at
  %areas.at = getelementptr %step, ptr %step, i64 0, i32 10
  %areas = load ptr, ptr %areas.at
  %stride.at = getelementptr %step, ptr %step, i64 0, i32 11
  %stride = load i64, ptr %stride.at
  %workers.at = getelementptr %step, ptr %step, i64 0, i32 12
  %workers = load i64, ptr %workers.at
  %skip.at = getelementptr %step, ptr %step, i64 0, i32 18
  %first.at = getelementptr i64, ptr %record, i64 1
  %first = load i64, ptr %first.at
  %number.at = getelementptr i64, ptr %record, i64 2
  %number = load i64, ptr %number.at
  %counter.id.at = getelementptr i64, ptr %record, i64 3
  %counter.id = load i64, ptr %counter.id.at
  %counter = getelementptr [8 x i64], ptr %counters, i64 %counter.id
  %area.offset = mul i64 %index, %stride
  %area = getelementptr i8, ptr %areas, i64 %area.offset
  br label %count
count:
  %i = phi i64 [ 0, %entry ], [ %i.next, %count ]
  %sum = phi i64 [ 0, %entry ], [ %total, %count ]
  %which = add i64 %first, %i
  %call = getelementptr [6 x i64], ptr %calls, i64 %which
  %size = call i64 @programs(ptr %call, ptr %values)
  %total = add i64 %sum, %size
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %number
  br i1 %more, label %count, label %shares
shares:
  ; Eight shares a worker even out the load; 64 programs at most keep a step interruptible.
  %parts = mul i64 %workers, 8
  %even = udiv i64 %total, %parts
  %some = call i64 @llvm.smax.i64(i64 %even, i64 1)
  %share = call i64 @llvm.smin.i64(i64 %some, i64 64)
  br label %poll
poll:
  %skip = load atomic i32, ptr %skip.at monotonic, align 4
  %skipped = icmp ne i32 %skip, 0
  br i1 %skipped, label %done, label %look
look:
  %due = call i1 @poll_due(ptr %step, i64 %index)
  br i1 %due, label %done, label %claim
claim:
  %from = atomicrmw add ptr %counter, i64 %share monotonic
  %left = icmp ult i64 %from, %total
  br i1 %left, label %run, label %done
run:
  %end = add i64 %from, %share
  %to = call i64 @llvm.smin.i64(i64 %end, i64 %total)
  call void @run_share(ptr %step, i64 %index, ptr %record, ptr %area, i64 %from, i64 %to)
  br label %poll
done:
  %result = phi i1 [ false, %poll ], [ true, %look ], [ false, %claim ]
  ret i1 %result
}

; Walk the records from %start. Worker 0 returns 1 to poll, 2 to have a host call made, else 0.
define internal i64 @walk(ptr %step, i64 %index, i64 %start) {
entry:
  %records.at = getelementptr %step, ptr %step, i64 0, i32 0
  %records = load ptr, ptr %records.at
  %values.at = getelementptr %step, ptr %step, i64 0, i32 6
  %values = load ptr, ptr %values.at
  %workers.at = getelementptr %step, ptr %step, i64 0, i32 12
  %workers = load i64, ptr %workers.at
  %pool.at = getelementptr %step, ptr %step, i64 0, i32 13
  %pool = load ptr, ptr %pool.at
  %here.at = getelementptr %step, ptr %step, i64 0, i32 16
  %skip.at = getelementptr %step, ptr %step, i64 0, i32 18
  br label %fetch
fetch:
  %here = phi i64 [ %start, %entry ], [ %next, %launch ], [ %next, %barrier ],
                  [ %branch, %switch ], [ %target, %jump ], [ %next, %host ], [ %next, %host.0 ]
  %record = getelementptr [6 x i64], ptr %records, i64 %here
  %opcode = load i64, ptr %record
  %one.at = getelementptr i64, ptr %record, i64 1
  %one = load i64, ptr %one.at
  %two.at = getelementptr i64, ptr %record, i64 2
  %two = load i64, ptr %two.at
  %three.at = getelementptr i64, ptr %record, i64 3
  %three = load i64, ptr %three.at
  %next = add i64 %here, 1
  switch i64 %opcode, label %end [
    i64 1, label %launch
    i64 2, label %barrier
    i64 3, label %switch
    i64 4, label %jump
    i64 5, label %host
  ]
launch:
  %polls = call i1 @run_launch(ptr %step, i64 %index, ptr %record)
  br i1 %polls, label %poll, label %fetch
poll:
  store i64 %here, ptr %here.at
  ret i64 1
barrier:
  call void @meet(ptr %step, i64 %index)
  br label %fetch
switch:
  %value.at = getelementptr i64, ptr %values, i64 %one
  %value = load i64, ptr %value.at
  %within = icmp sle i64 %value, %two
  %branch = select i1 %within, i64 %next, i64 %three
  br label %fetch
jump:
  %target = add i64 %one, 0
  br label %fetch
host:
  %is.0 = icmp eq i64 %index, 0
  br i1 %is.0, label %host.0, label %fetch
host.0:
  %skip = load atomic i32, ptr %skip.at monotonic, align 4
  %skipped = icmp ne i32 %skip, 0
  br i1 %skipped, label %fetch, label %leave
leave:
  store i64 %next, ptr %here.at
  ret i64 2
end:
  ; Not noted: once all are here, the trace is the caller's again.
  call void @barrier(ptr %pool, i64 %workers)
  ret i64 0
}

; Worker 0's part from record %start on.
define internal i64 @walk_first(ptr %step, i64 %start) {
entry:
  %mode = call i64 @enter_float_mode()
  %status = call i64 @walk(ptr %step, i64 0, i64 %start)
  call void @leave_float_mode(i64 %mode)
  %over = icmp eq i64 %status, 0
  br i1 %over, label %finish, label %done
finish:
  %here.at = getelementptr %step, ptr %step, i64 0, i32 16
  store i64 -1, ptr %here.at
  br label %done
done:
  ret i64 %status
}

; Hand %step (null: stop) to the worker of a mailbox.
define void @post(ptr %mailbox, ptr %step) {
  %posted = getelementptr %mailbox, ptr %mailbox, i64 0, i32 0
  %asleep = getelementptr %mailbox, ptr %mailbox, i64 0, i32 1
  %step.at = getelementptr %mailbox, ptr %mailbox, i64 0, i32 3
  store ptr %step, ptr %step.at
  call void @announce(ptr %posted, ptr %asleep)
  ret void
}

; Begin a step. Returns 0 when it is done; 1 or 2 when it has to be resumed.
define i64 @run_step(ptr %step) {
entry:
  %counters.at = getelementptr %step, ptr %step, i64 0, i32 8
  %counters = load ptr, ptr %counters.at
  %bytes.at = getelementptr %step, ptr %step, i64 0, i32 9
  %bytes = load i64, ptr %bytes.at
  %workers.at = getelementptr %step, ptr %step, i64 0, i32 12
  %workers = load i64, ptr %workers.at
  %pool.at = getelementptr %step, ptr %step, i64 0, i32 13
  %pool = load ptr, ptr %pool.at
  %interval.at = getelementptr %step, ptr %step, i64 0, i32 14
  %interval = load i64, ptr %interval.at
  %poll.at = getelementptr %step, ptr %step, i64 0, i32 15
  %here.at = getelementptr %step, ptr %step, i64 0, i32 16
  %error.at = getelementptr %step, ptr %step, i64 0, i32 17
  %skip.at = getelementptr %step, ptr %step, i64 0, i32 18
  call void @llvm.memset.p0.i64(ptr align 64 %counters, i8 0, i64 %bytes, i1 false)
  %time = call i64 @clock()
  %poll = add i64 %time, %interval
  store i64 %poll, ptr %poll.at
  store i64 0, ptr %here.at
  store i32 0, ptr %error.at
  store i32 0, ptr %skip.at
  %mailboxes = getelementptr %pool, ptr %pool, i64 1
  br label %head
head:
  %i = phi i64 [ 1, %entry ], [ %next, %body ]
  %box = phi ptr [ %mailboxes, %entry ], [ %box.next, %body ]
  %more = icmp ult i64 %i, %workers
  br i1 %more, label %body, label %walk
body:
  call void @post(ptr %box, ptr %step)
  %box.next = getelementptr %mailbox, ptr %box, i64 1
  %next = add i64 %i, 1
  br label %head
walk:
  %status = call i64 @walk_first(ptr %step, i64 0)
  ret i64 %status
}

; Go on with a step that returned 1 or 2.
define i64 @resume_step(ptr %step) {
  %here.at = getelementptr %step, ptr %step, i64 0, i32 16
  %here = load i64, ptr %here.at
  %status = call i64 @walk_first(ptr %step, i64 %here)
  ret i64 %status
}

; Skip what is left of a step, if anything is, and let its workers go.
define void @abandon_step(ptr %step) {
entry:
  %here.at = getelementptr %step, ptr %step, i64 0, i32 16
  %skip.at = getelementptr %step, ptr %step, i64 0, i32 18
  %here = load i64, ptr %here.at
  %over = icmp slt i64 %here, 0
  br i1 %over, label %done, label %skip
skip:
  store atomic i32 1, ptr %skip.at seq_cst, align 4
  %status = call i64 @walk_first(ptr %step, i64 %here)
  br label %done
done:
  ret void
}

; What the thread of a worker does for its whole life.
define void @work(ptr %mailbox, ptr %pool) {
entry:
  %posted = getelementptr %mailbox, ptr %mailbox, i64 0, i32 0
  %asleep = getelementptr %mailbox, ptr %mailbox, i64 0, i32 1
  %index.at = getelementptr %mailbox, ptr %mailbox, i64 0, i32 2
  %step.at = getelementptr %mailbox, ptr %mailbox, i64 0, i32 3
  %index = load i64, ptr %index.at
  %mode = call i64 @enter_float_mode()
  br label %head
head:
  %seen = phi i32 [ 0, %entry ], [ %seen.next, %walk ]
  call void @await_change(ptr %posted, i32 %seen, ptr %asleep)
  %seen.next = add i32 %seen, 1
  %step = load ptr, ptr %step.at
  %stop = icmp eq ptr %step, null
  br i1 %stop, label %done, label %walk
walk:
  %status = call i64 @walk(ptr %step, i64 %index, i64 0)
  br label %head
done:
  ret void
}
