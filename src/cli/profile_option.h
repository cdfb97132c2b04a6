#pragma once

#include "base/result.h"
#include "cli/command.h"
#include "plan/machine.h"

namespace passnet {

/// The machine profile that --profile names: a shipped one by name, or a file.
Result<Profile> chosen_profile(CommandContext& context);

}  // namespace passnet
