/* A HIP runtime that launches nothing: every function is defined against the prototype of HIP's own header, and a launch
 * copies its parameters into the argument segment as the code object's metadata lays it out, which is what HIP does. */
#define __HIP_PLATFORM_AMD__ 1
#define __HIP_PLATFORM_HCC__ 1
#include <hip/hip_runtime_api.h>
#include <string.h>

_Static_assert(hipErrorOutOfMemory == 2, "");
_Static_assert(hipErrorLaunchOutOfResources == 701, "");
_Static_assert(sizeof(hipError_t) == sizeof(int), "a status is an int");
_Static_assert(sizeof(hipModule_t) == 8 && sizeof(hipFunction_t) == 8 && sizeof(hipStream_t) == 8, "handles");

static int current = 5, count, offsets[64], sizes[64];
static unsigned launched[8];
static unsigned char segment[4096];
static hipStream_t launched_on;

void standin_layout(int parameters, const int *at, const int *size) {
    count = parameters;
    memcpy(offsets, at, sizeof(int) * (size_t)count);
    memcpy(sizes, size, sizeof(int) * (size_t)count);
    memset(segment, 0xAA, sizeof segment);
}
const unsigned char *standin_segment(void) { return segment; }
const unsigned *standin_launched(void) { return launched; }
void *standin_stream(void) { return launched_on; }
int standin_device(void) { return current; }

hipError_t hipGetDevice(int *device) { *device = current; return hipSuccess; }
hipError_t hipSetDevice(int device) { current = device; return hipSuccess; }
hipError_t hipDeviceSynchronize(void) { return hipSuccess; }
const char *hipGetErrorName(hipError_t error) { return error == hipErrorInvalidImage ? "hipErrorInvalidImage" : "other"; }

hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
    if (memcmp(image, "\177ELF", 4)) return hipErrorInvalidImage;
    *module = (hipModule_t)0x1111111111111111;
    return hipSuccess;
}
hipError_t hipModuleUnload(hipModule_t module) { (void)module; return hipSuccess; }
hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name) {
    *function = module == (hipModule_t)0x1111111111111111 && *name ? (hipFunction_t)0x2222222222222222 : 0;
    return hipSuccess;
}
hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, hipStream_t stream, void **parameters, void **extra) {
    if (function != (hipFunction_t)0x2222222222222222 || extra) return hipErrorInvalidValue;
    unsigned given[] = {gx, gy, gz, bx, by, bz, shared, 1};
    memcpy(launched, given, sizeof launched);
    launched_on = stream;
    for (int i = 0; i < count; i++) memcpy(segment + offsets[i], parameters[i], (size_t)sizes[i]);
    return hipSuccess;
}
