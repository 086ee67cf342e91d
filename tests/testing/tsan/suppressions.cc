// What ThreadSanitizer leaves out of account. There is no suppression of a race in our code.

extern "C" const char* __tsan_default_suppressions() {
  // These libraries are not built for ThreadSanitizer. It sees what they allocate, free and copy,
  // but not the atomics by which their threads pass it on, so it would report each object that
  // another of their threads uses as a race.
  return "called_from_lib:libgpr.so\n"
         "called_from_lib:libgrpc.so\n"
         "called_from_lib:libgrpc++.so\n"
         "called_from_lib:libgrpc++_reflection.so\n"
         "called_from_lib:libupb.so\n"
         "called_from_lib:libprotobuf.so\n"
         "called_from_lib:libabsl_cord.so\n"
         "called_from_lib:libabsl_graphcycles_internal.so\n"
         "called_from_lib:libabsl_status.so\n"
         "called_from_lib:libabsl_strings.so\n"
         "called_from_lib:libabsl_time.so\n"
         "called_from_lib:libabsl_time_zone.so\n";
}
