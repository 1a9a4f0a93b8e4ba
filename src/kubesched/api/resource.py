"""resource.k8s.io/v1: claims for devices, as far as holding pods back and waking them needs them."""

from __future__ import annotations

from kubesched.api.meta import Int64, Object, Struct
from kubesched.api.selectors import NodeSelector


class DeviceSubRequest(Struct):
    name: str = ""
    device_class_name: str = ""
    allocation_mode: str = ""
    count: Int64 = 0


class ExactDeviceRequest(Struct):
    device_class_name: str = ""
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool = False


class DeviceRequest(Struct):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceClaim(Struct):
    requests: tuple[DeviceRequest, ...] = ()


class ResourceClaimSpec(Struct):
    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(Struct):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""


class DeviceAllocationResult(Struct):
    results: tuple[DeviceRequestAllocationResult, ...] = ()


class AllocationResult(Struct):
    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None


class ResourceClaimConsumerReference(Struct):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Struct):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()


class ResourceClaim(Object):
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class DeviceClassSpec(Struct):
    extended_resource_name: str | None = None


class DeviceClass(Object):
    spec: DeviceClassSpec = DeviceClassSpec()


class ResourcePool(Struct):
    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class Device(Struct):
    name: str = ""


class ResourceSliceSpec(Struct):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    devices: tuple[Device, ...] = ()


class ResourceSlice(Object):
    spec: ResourceSliceSpec = ResourceSliceSpec()
