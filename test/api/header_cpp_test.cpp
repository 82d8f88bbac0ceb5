// The public header as C++ with all warnings as errors, included twice and before anything else.
#include <anello/anello.h>
#include <anello/gradient_sync.h>
#include <anello/sampler.h>
#include <anello/stream.h>
#include <anello/anello.h>

#include <type_traits>

static_assert(std::is_standard_layout_v<anello_config_t> && std::is_trivially_copyable_v<anello_config_t>);
static_assert(std::is_standard_layout_v<anello_call_t> && std::is_trivially_copyable_v<anello_call_t>);

int main() {
  const anello_config_t config = ANELLO_CONFIG_INITIALIZER;
  const anello_call_t call = ANELLO_CALL_INITIALIZER;
  return config.size == sizeof config && call.size == sizeof call && anello_version() == ANELLO_VERSION_CODE ? 0 : 1;
}
