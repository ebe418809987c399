#pragma once

// A function marked TESSERA_CLONES is compiled for several instruction sets; the best is chosen
// when the program loads.

// The sanitizers' runtimes are not ready when the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define TESSERA_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TESSERA_CLONES
#endif
// Into each clone, so that it is compiled for its instruction set.
#define TESSERA_INLINE inline __attribute__((always_inline))
