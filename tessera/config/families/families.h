#pragma once

// One function a family: its row. A new one is declared here and listed in builtin.cpp.

#include "tessera/config/family.h"

namespace tessera::families {

Family llama();
Family qwen2();
Family qwen3();
Family qwen3_moe();
Family deepseek_v3();

}  // namespace tessera::families
