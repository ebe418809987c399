# libtorch out of a torch wheel: target torch_cpu_iface.
#
# find_package(Torch) is not used: with a CUDA wheel it asks for a CUDA toolkit, which compiling
# against the headers and linking do not need.

set(TESSERA_TORCH_DIR "$ENV{TESSERA_TORCH_DIR}" CACHE PATH
    "Folder with torch's lib/ and include/ (site-packages/torch); empty: .deps/torch")
set(torch_dir ${TESSERA_TORCH_DIR})
if(NOT torch_dir)
  set(torch_dir ${PROJECT_SOURCE_DIR}/.deps/torch)
endif()
if(NOT EXISTS ${torch_dir}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "No libtorch in ${torch_dir}: run tools/setup.sh, or set TESSERA_TORCH_DIR to a "
                      "site-packages/torch of version 2.13.0.")
endif()
# The linker does not ask for what libtorch itself needs: said here, not when a program starts.
file(GLOB torch_main_libraries ${torch_dir}/lib/libtorch_cpu.so ${torch_dir}/lib/libtorch_cuda.so)
execute_process(COMMAND ldd ${torch_main_libraries} OUTPUT_VARIABLE torch_needs ERROR_QUIET)
string(REGEX MATCHALL "[^ \t\n]+ => not found" torch_lacks "${torch_needs}")
if(torch_lacks)
  list(REMOVE_DUPLICATES torch_lacks)
  list(TRANSFORM torch_lacks REPLACE " => not found" "")
  list(JOIN torch_lacks ", " torch_lacks)
  message(FATAL_ERROR "The libtorch in ${torch_dir} needs libraries that are not here: ${torch_lacks}. "
                      "A CUDA build has them from the nvidia-* packages that pip installs beside it; "
                      "without TESSERA_TORCH_DIR tools/setup.sh fetches a complete one.")
endif()

add_library(torch_cpu_iface INTERFACE)
# -idirafter: torch ships a copy of fmt that must not shadow the one spdlog was built with.
target_compile_options(torch_cpu_iface INTERFACE
  "SHELL:-idirafter ${torch_dir}/include"
  "SHELL:-idirafter ${torch_dir}/include/torch/csrc/api/include"
  -fopenmp)  # at::parallel_for is a template around an OpenMP region
target_compile_definitions(torch_cpu_iface INTERFACE
  USE_DISTRIBUTED USE_C10D_GLOO _GLIBCXX_USE_CXX11_ABI=1)
target_link_options(torch_cpu_iface INTERFACE -fopenmp)
target_link_libraries(torch_cpu_iface INTERFACE
  ${torch_dir}/lib/libtorch.so ${torch_dir}/lib/libtorch_cpu.so ${torch_dir}/lib/libc10.so
  Threads::Threads)

if(EXISTS ${torch_dir}/lib/libtorch_cuda.so)
  # The CUDA runtime, NCCL and their headers lie in the nvidia-* packages beside torch.
  file(GLOB nvidia_includes ${torch_dir}/../nvidia/*/include ${PROJECT_SOURCE_DIR}/.deps/nvidia/*/include)
  file(GLOB nvidia_libraries ${torch_dir}/../nvidia/*/lib)
  foreach(folder IN LISTS nvidia_includes)
    target_compile_options(torch_cpu_iface INTERFACE "SHELL:-idirafter ${folder}")
  endforeach()
  find_path(TESSERA_CCCL_DIR nv/target PATHS ${nvidia_includes})
  if(TESSERA_CCCL_DIR)
    target_compile_definitions(torch_cpu_iface INTERFACE TESSERA_WITH_NCCL=1 USE_C10D_NCCL)
  else()
    message(STATUS "NCCL is not compiled in: no nv/target among the nvidia-* packages")
  endif()
  # Nothing refers to symbols of torch_cuda by name: its kernels register themselves when loaded.
  target_link_libraries(torch_cpu_iface INTERFACE
    -Wl,--no-as-needed ${torch_dir}/lib/libtorch_cuda.so ${torch_dir}/lib/libc10_cuda.so
    -Wl,--as-needed)
  target_link_options(torch_cpu_iface INTERFACE -Wl,--allow-shlib-undefined)
  foreach(folder IN LISTS nvidia_libraries)
    target_link_options(torch_cpu_iface INTERFACE -Wl,-rpath,${folder})
  endforeach()
endif()

# What an installed program finds libtorch by: a copy beside it, or with the CUDA build (whose libraries
# refer to the nvidia-* packages by relative paths) the folder that it was built with.
if(EXISTS ${torch_dir}/lib/libtorch_cuda.so)
  set(TESSERA_INSTALL_RPATH ${torch_dir}/lib ${nvidia_libraries})
else()
  set(TESSERA_INSTALL_RPATH $ORIGIN/../lib/tessera)
  file(GLOB torch_libraries ${torch_dir}/lib/libtorch.so ${torch_dir}/lib/libtorch_cpu.so
       ${torch_dir}/lib/libc10.so ${torch_dir}/lib/lib*.so.*)
  install(FILES ${torch_libraries} DESTINATION lib/tessera)
endif()

# One precompiled header, compiled once and used by every target that sees torch.
file(WRITE ${PROJECT_BINARY_DIR}/generated/torch_pch.cpp.in "// Carrier of the precompiled header.\n")
configure_file(${PROJECT_BINARY_DIR}/generated/torch_pch.cpp.in
               ${PROJECT_BINARY_DIR}/generated/torch_pch.cpp COPYONLY)
add_library(tessera_torch_pch STATIC ${PROJECT_BINARY_DIR}/generated/torch_pch.cpp)
target_link_libraries(tessera_torch_pch PUBLIC tessera_flags torch_cpu_iface)
target_precompile_headers(tessera_torch_pch PRIVATE ${PROJECT_SOURCE_DIR}/tessera/comm/torch_pch.h)

# Links libtorch to a target and gives it the precompiled header.
function(tessera_use_torch target)
  target_link_libraries(${target} PUBLIC torch_cpu_iface)
  target_precompile_headers(${target} REUSE_FROM tessera_torch_pch)
endfunction()
