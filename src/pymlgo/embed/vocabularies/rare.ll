; Instructions, types and predicates that C and C++ for Linux hardly ever show, so that the shipped vocabulary has met them.
; LabelTy, MetadataTy and FunctionTy are no instruction's type, and UserOp1 and UserOp2 no instruction: no code has those.
target triple = "x86_64-unknown-linux-gnu"

declare i32 @__gxx_personality_v0(...)
declare i32 @__CxxFrameHandler3(...)
declare void @may_throw()
declare void @use(ptr)
declare target("spirv.Event") @event()
declare void @wait(target("spirv.Event"))

define i32 @indirect(ptr %label, i32 %x) {
entry:
  indirectbr ptr %label, [label %left, label %right]
left:
  %a = add i32 %x, 1
  ret i32 %a
right:
  %b = sub i32 %x, 1
  ret i32 %b
}

define i32 @assembler_jump(i32 %x) {
entry:
  callbr void asm sideeffect "", "r,!i"(i32 %x) to label %through [label %away]
through:
  ret i32 0
away:
  ret i32 1
}

define void @windows_cleanup() personality ptr @__CxxFrameHandler3 {
entry:
  invoke void @may_throw() to label %done unwind label %cleanup
cleanup:
  %pad = cleanuppad within none []
  call void @use(ptr null) [ "funclet"(token %pad) ]
  cleanupret from %pad unwind to caller
done:
  ret void
}

define i32 @windows_catch() personality ptr @__CxxFrameHandler3 {
entry:
  invoke void @may_throw() to label %done unwind label %dispatch
dispatch:
  %switch = catchswitch within none [label %handler] unwind to caller
handler:
  %pad = catchpad within %switch [ptr null, i32 64, ptr null]
  catchret from %pad to label %done
done:
  %result = phi i32 [ 0, %entry ], [ 1, %handler ]
  ret i32 %result
}

define i32 @clean_up() personality ptr @__gxx_personality_v0 {
entry:
  invoke void @may_throw() to label %done unwind label %pad
pad:
  %caught = landingpad { ptr, i32 } cleanup catch ptr null filter [1 x ptr] [ptr null]
  resume { ptr, i32 } %caught
done:
  ret i32 0
}

define i64 @memory(ptr %p, ptr %list, i64 %x) {
  fence seq_cst
  fence acquire
  %pair = cmpxchg ptr %p, i64 %x, i64 7 acq_rel monotonic
  %old = extractvalue { i64, i1 } %pair, 0
  %before = atomicrmw add ptr %p, i64 %old seq_cst
  %swapped = atomicrmw xchg ptr %p, i64 %before acquire
  %cast = addrspacecast ptr %p to ptr addrspace(1)
  %back = addrspacecast ptr addrspace(1) %cast to ptr
  %address = ptrtoaddr ptr %back to i64
  %integer = ptrtoint ptr %back to i64
  %pointer = inttoptr i64 %integer to ptr
  %next = va_arg ptr %list, i32
  %wide = va_arg ptr %list, double
  store double %wide, ptr %pointer
  %sure = freeze i64 %address
  %longer = sext i32 %next to i64
  %sum = add i64 %sure, %longer
  ret i64 %sum
}

define double @numbers(double %x, double %y, float %z) {
  %r = frem double %x, %y
  %rf = frem float %z, 2.0
  %n = fneg double %r
  %e = fpext float %rf to double
  %t = fptrunc double %e to float
  %i = fptoui float %t to i32
  %u = uitofp i32 %i to double
  %s = fadd double %n, %u
  %f = freeze double %s
  ret double %f
}

define i1 @float_compares(double %x, double %y) {
  %1 = fcmp false double %x, %y
  %2 = fcmp oeq double %x, %y
  %3 = fcmp ogt double %x, %y
  %4 = fcmp oge double %x, 1.0
  %5 = fcmp olt double %x, %y
  %6 = fcmp ole double %x, %y
  %7 = fcmp one double %x, 0.0
  %8 = fcmp ord double %x, %y
  %9 = fcmp uno double %x, 0.0
  %10 = fcmp ueq double %x, %y
  %11 = fcmp ugt double %x, %y
  %12 = fcmp uge double %x, 1.0
  %13 = fcmp ult double %x, %y
  %14 = fcmp ule double %x, %y
  %15 = fcmp une double %x, %y
  %16 = fcmp true double %x, %y
  %17 = or i1 %1, %16
  ret i1 %17
}

define <4 x i1> @vectors(<4 x i32> %a, <4 x i32> %b, <vscale x 2 x i64> %c) {
  %1 = extractelement <4 x i32> %a, i32 1
  %2 = insertelement <4 x i32> %b, i32 %1, i32 2
  %3 = shufflevector <4 x i32> %2, <4 x i32> poison, <4 x i32> zeroinitializer
  %4 = add <vscale x 2 x i64> %c, %c
  %5 = icmp ult <4 x i32> %3, %a
  ret <4 x i1> %5
}

define [2 x i32] @arrays(ptr %p, i32 %x) {
  %whole = load [2 x i32], ptr %p
  %changed = insertvalue [2 x i32] %whole, i32 %x, 1
  %other = select i1 true, [2 x i32] %changed, [2 x i32] %whole
  store [2 x i32] %other, ptr %p
  ret [2 x i32] %other
}

define void @unknown_types() {
  %e = call target("spirv.Event") @event()
  call void @wait(target("spirv.Event") %e)
  ret void
}
