// Information about the library: names, version, transports.
#include "commit.h"
#include "api/last_error.h"
#include "base/dtype.h"
#include "base/text.h"
#include "transports/registry.h"

#include <anello/anello.h>

#include <cstring>

using namespace anello;
using namespace anello::api;

extern "C" {

const char* anello_result_name(anello_result_t result) { return result_name(result); }

size_t anello_dtype_size(anello_dtype_t dtype) { return dtype_bytes(dtype); }
const char* anello_dtype_name(anello_dtype_t dtype) { return dtype_name(dtype); }
const char* anello_op_name(anello_op_t op) { return op_name(op); }

int anello_version(void) { return ANELLO_VERSION_CODE; }
const char* anello_commit(void) { return ANELLO_COMMIT; }

anello_result_t anello_transport_query(int index, anello_transport_info_t* info) {
  return guard(ANELLO_COMM_NULL, [&] {
    if (info == nullptr) throw Error(ANELLO_ERR_ARGUMENT, "info is NULL");
    if (info->size != sizeof *info) {
      throw Error(ANELLO_ERR_ARGUMENT, text("anello_transport_info_t.size is ", info->size, ", not ", sizeof *info));
    }
    const auto rows = transport::registry();
    if (index < 0 || index >= static_cast<int>(rows.size())) {
      throw Error(ANELLO_ERR_ARGUMENT, text("there is no transport ", index));
    }
    const transport::Row& row = rows[static_cast<std::size_t>(index)];
    const std::string why = row.why_not();
    info->name = row.name.data();  // a literal's data
    std::strncpy(info->why_not, why.c_str(), sizeof info->why_not - 1);
    info->why_not[sizeof info->why_not - 1] = '\0';
    return ANELLO_OK;
  });
}

}  // extern "C"
