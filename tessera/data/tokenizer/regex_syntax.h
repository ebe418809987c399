#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// A pattern as a tokenizer.json writes it (Oniguruma's syntax of Ruby, over Unicode) in PCRE2's,
/// with the same matches under PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE: white space and word
/// characters are Unicode's, nested sets are flattened, `x{1,3}+` is a repetition of a repetition.
/// Throws ConfigError for what has no equal: "\K at byte 3 is not known".
std::string to_pcre_syntax(std::string_view pattern);

}  // namespace tessera
