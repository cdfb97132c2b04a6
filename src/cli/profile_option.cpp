#include "cli/profile_option.h"

#include <algorithm>

namespace passnet {

Result<Profile> chosen_profile(CommandContext& context) {
  const std::string& name = context.options.profile;
  const std::vector<std::string> shipped = profile_names();
  const bool is_name = std::find(shipped.begin(), shipped.end(), name) != shipped.end();
  if (is_name || name.find_first_of("./") == std::string::npos) return builtin_profile(name);
  PN_TRY(const std::string text, context.files.read(name));
  return read_profile(text, name);
}

}  // namespace passnet
