// msrun: starts the workers of a run on this node. The same as `tessera launch`.

#include "tessera/launcher/launch.h"
#include "tessera/launcher/program_main.h"

int main(int argc, char** argv) {
  return tessera::run_program(
      [&] { return tessera::run_msrun(tessera::arguments_of(argc, argv), "msrun", {}); });
}
