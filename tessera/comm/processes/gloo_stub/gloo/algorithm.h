#pragma once

// c10d's ProcessGroupGloo.hpp includes five headers of Gloo that the wheel does not ship, while
// their symbols are in libtorch_cpu. It only names these types; none is laid out or called in our
// code, so opaque declarations are enough. tests/comm/gloo_test.cpp notices a wheel that needs
// more.
