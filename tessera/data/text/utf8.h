#pragma once

// Readers of texts find it here as well.
#include "tessera/base/utf8.h"
