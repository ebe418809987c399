#pragma once

// One function a family: its row. A new one is declared here and listed in builtin.cpp.

#include "tessera/config/family.h"

namespace tessera::families {

Family llama();
Family mistral();
Family mixtral();
Family qwen2();
Family qwen3();
Family qwen3_moe();
Family phi3();
Family olmo2();
Family olmo3();
Family gemma2();
Family gemma3_text();
Family glm4();
Family glm4_moe();
Family gpt_oss();
Family deepseek_v3();

}  // namespace tessera::families
