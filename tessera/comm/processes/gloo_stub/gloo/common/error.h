#pragma once

// See gloo/algorithm.h.
