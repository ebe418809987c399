# Writes a CTest file with one test per gtest suite of a binary. Typed suites (Suite/0, Suite/1) and
# instantiated ones (Instance/Suite) are one test each.
#
# cmake -D binary=FILE -D name=NAME -D timeout=SECONDS -D output=FILE -P discover_suites.cmake

execute_process(COMMAND ${binary} --gtest_list_tests
                OUTPUT_VARIABLE listing RESULT_VARIABLE code ERROR_VARIABLE errors)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${binary} --gtest_list_tests ended with ${code}\n${errors}")
endif()

string(REPLACE ";" "," listing "${listing}")
string(REPLACE "\n" ";" lines "${listing}")
set(suites)
foreach(line IN LISTS lines)
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.")
    string(REGEX REPLACE "/[0-9]+$" "" suite "${CMAKE_MATCH_1}")
    list(APPEND suites ${suite})
  endif()
endforeach()
list(REMOVE_DUPLICATES suites)

string(REGEX REPLACE "^test_" "" label ${name})
set(text "")
foreach(suite IN LISTS suites)
  string(APPEND text
    "add_test([=[${label}.${suite}]=] [=[${binary}]=] [=[--gtest_filter=${suite}.*:${suite}/*.*]=] "
    "--gtest_brief=1)\n"
    "set_tests_properties([=[${label}.${suite}]=] PROPERTIES TIMEOUT ${timeout} LABELS ${label} "
    "ENVIRONMENT OMP_NUM_THREADS=1)\n")
endforeach()
file(WRITE ${output} "${text}")
