#include "info/cuda.h"

#include "kernels/cuda/driver.h"
#include "kernels/cuda/image.h"

#include <string>

namespace info {
namespace {

using anello::kernels::cuda::Driver;

Entry kernels() {
  try {
    anello::kernels::cuda::images();
    return {"kernels", "found", ""};
  } catch (const anello::Error& error) {
    return {"kernels", "not found", error.text()};
  }
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Entry device(const Driver& driver, int number) {
  char name[128] = "without a name";
  int major = 0, minor = 0, multiprocessors = 0;
  driver.device_name(name, sizeof name, number);
  driver.device_attribute(&major, anello::kernels::cuda::kCapabilityMajor, number);
  driver.device_attribute(&minor, anello::kernels::cuda::kCapabilityMinor, number);
  driver.device_attribute(&multiprocessors, anello::kernels::cuda::kMultiprocessors, number);
  return {"device " + std::to_string(number),
          std::string(name) + ", compute capability " + std::to_string(major) + "." + std::to_string(minor) + ", " +
              std::to_string(multiprocessors) + " multiprocessors",
          ""};
}

}  // namespace

Section cuda() {
  Section section{"cuda", {kernels()}};
  try {
    const Driver& driver = anello::kernels::cuda::driver();
    int version = 0, count = 0;
    driver.driver_version(&version);
    driver.device_count(&count);
    section.entries.push_back({"driver", "for CUDA " + version_text(version), ""});
    for (int number = 0; number < count; ++number) section.entries.push_back(device(driver, number));
  } catch (const anello::Error& error) {
    section.entries.push_back({"driver", "none", error.text()});
  }
  return section;
}

}  // namespace info
