//! Calls that are not supported. Each exists, says its name and fails: none succeeds silently.

use crate::call;
use crate::error::NOT_SUPPORTED;

/// Says that a call is not supported; gives the status.
fn refuse(name: &str) -> i32 {
    call::keep(name, || {
        eprintln!("warpsim: {name} is not supported (docs/cuda.md lists what is)");
        Err(NOT_SUPPORTED)
    })
}

macro_rules! unsupported {
    ($($name:ident)*) => {
        $(
            /// Not supported.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> i32 {
                refuse(stringify!($name))
            }
        )*

        /// Their names.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

#[rustfmt::skip]
unsupported! {
    __cudaGetProcAddress __cudaRegisterHostVar
    __cudaRegisterUnifiedTable cudaArrayGetMemoryRequirements cudaArrayGetPlane
    cudaArrayGetSparseProperties
    cudaCtxResetPersistingL2Cache
    cudaDestroyExternalMemory cudaDestroyExternalSemaphore
    cudaDevResourceGenerateDesc cudaDevSmResourceSplit cudaDevSmResourceSplitByCount
    cudaDeviceFlushGPUDirectRDMAWrites cudaDeviceGetDevResource
    cudaDeviceGetExecutionCtx cudaDeviceGetGraphMemAttribute cudaDeviceGetHostAtomicCapabilities
    cudaDeviceGetNvSciSyncAttributes cudaDeviceGetP2PAtomicCapabilities
    cudaDeviceGetP2PAttribute cudaDeviceGetTexture1DLinearMaxWidth cudaDeviceGraphMemTrim
    cudaDeviceRegisterAsyncNotification cudaDeviceSetGraphMemAttribute cudaDeviceUnregisterAsyncNotification cudaEGLStreamConsumerAcquireFrame cudaEGLStreamConsumerConnect
    cudaEGLStreamConsumerConnectWithFlags cudaEGLStreamConsumerDisconnect cudaEGLStreamConsumerReleaseFrame
    cudaEGLStreamProducerConnect cudaEGLStreamProducerDisconnect cudaEGLStreamProducerPresentFrame
    cudaEGLStreamProducerReturnFrame cudaEventCreateFromEGLSync cudaExecutionCtxDestroy
    cudaExecutionCtxGetDevResource cudaExecutionCtxGetDevice cudaExecutionCtxGetId
    cudaExecutionCtxRecordEvent cudaExecutionCtxStreamCreate cudaExecutionCtxSynchronize
    cudaExecutionCtxWaitEvent cudaExternalMemoryGetMappedBuffer cudaExternalMemoryGetMappedMipmappedArray
    cudaFuncGetParamCount cudaFuncGetParamInfo cudaGLGetDevices
    cudaGLMapBufferObject cudaGLMapBufferObjectAsync cudaGLRegisterBufferObject
    cudaGLSetBufferObjectMapFlags cudaGLSetGLDevice cudaGLUnmapBufferObject cudaGLUnmapBufferObjectAsync
    cudaGLUnregisterBufferObject
    cudaGetExportTable
    cudaGetSurfaceReference
    cudaGetTextureObjectResourceViewDesc
    cudaGetTextureReference
        cudaGraphAddExternalSemaphoresSignalNode
    cudaGraphAddExternalSemaphoresWaitNode cudaGraphAddMemAllocNode cudaGraphAddMemFreeNode
    cudaGraphAddNode cudaGraphAddNode_v2
    cudaGraphChildGraphNodeGetGraph cudaGraphConditionalHandleCreate cudaGraphConditionalHandleCreate_v2
    cudaGraphEventRecordNodeGetEvent
    cudaGraphEventRecordNodeSetEvent cudaGraphEventWaitNodeGetEvent cudaGraphEventWaitNodeSetEvent
    cudaGraphExecEventRecordNodeSetEvent
    cudaGraphExecEventWaitNodeSetEvent cudaGraphExecExternalSemaphoresSignalNodeSetParams
    cudaGraphExecExternalSemaphoresWaitNodeSetParams cudaGraphExecGetFlags cudaGraphExecGetId
        cudaGraphExecMemcpyNodeSetParamsFromSymbol
    cudaGraphExecMemcpyNodeSetParamsToSymbol cudaGraphExecNodeSetParams
    cudaGraphExternalSemaphoresSignalNodeGetParams
    cudaGraphExternalSemaphoresSignalNodeSetParams cudaGraphExternalSemaphoresWaitNodeGetParams
    cudaGraphExternalSemaphoresWaitNodeSetParams cudaGraphGetId
    cudaGraphHostNodeGetParams     cudaGraphKernelNodeCopyAttributes
    cudaGraphKernelNodeGetAttribute cudaGraphKernelNodeGetParams cudaGraphKernelNodeSetAttribute
    cudaGraphMemAllocNodeGetParams cudaGraphMemFreeNodeGetParams
    cudaGraphMemcpyNodeGetParams     cudaGraphMemcpyNodeSetParamsFromSymbol cudaGraphMemcpyNodeSetParamsToSymbol     cudaGraphNodeGetContainingGraph
        cudaGraphNodeGetEnabled cudaGraphNodeGetLocalId cudaGraphNodeGetParams
    cudaGraphNodeGetToolsId cudaGraphNodeSetEnabled cudaGraphNodeSetParams
    cudaGraphReleaseUserObject     cudaGraphRetainUserObject cudaGraphicsEGLRegisterImage cudaGraphicsGLRegisterBuffer
    cudaGraphicsGLRegisterImage cudaGraphicsMapResources cudaGraphicsResourceGetMappedEglFrame
    cudaGraphicsResourceGetMappedMipmappedArray cudaGraphicsResourceGetMappedPointer
    cudaGraphicsResourceSetMapFlags cudaGraphicsSubResourceGetMappedArray cudaGraphicsUnmapResources
    cudaGraphicsUnregisterResource cudaGraphicsVDPAURegisterOutputSurface
    cudaGraphicsVDPAURegisterVideoSurface cudaGreenCtxCreate cudaImportExternalMemory
    cudaImportExternalSemaphore cudaIpcCloseMemHandle cudaIpcGetEventHandle cudaIpcOpenEventHandle
    cudaIpcOpenMemHandle cudaKernelSetAttributeForDevice cudaLaunchCooperativeKernelMultiDevice
    cudaLaunchHostFunc_ptsz cudaLaunchHostFunc_v2 cudaLaunchHostFunc_v2_ptsz cudaLibraryEnumerateKernels
    cudaLibraryGetGlobal cudaLibraryGetKernel cudaLibraryGetKernelCount cudaLibraryGetManaged
    cudaLibraryGetUnifiedFunction cudaLibraryLoadData cudaLibraryLoadFromFile cudaLibraryUnload
    cudaLogsCurrent cudaLogsDumpToFile cudaLogsDumpToMemory cudaLogsRegisterCallback
    cudaLogsUnregisterCallback cudaMemDiscardAndPrefetchBatchAsync
    cudaMemDiscardAndPrefetchBatchAsync_ptsz cudaMemDiscardBatchAsync cudaMemDiscardBatchAsync_ptsz
    cudaMemGetDefaultMemPool cudaMemGetLocationInfo cudaMemGetMemPool cudaMemPoolExportPointer cudaMemPoolExportToShareableHandle cudaMemPoolImportFromShareableHandle cudaMemPoolImportPointer cudaMemPrefetchAsync_v2_ptsz cudaMemPrefetchBatchAsync
    cudaMemPrefetchBatchAsync_ptsz cudaMemRangeGetAttribute cudaMemRangeGetAttributes cudaMemSetMemPool
    cudaMemcpy3DBatchAsync
    cudaMemcpy3DBatchAsync_ptsz cudaMemcpy3DPeer cudaMemcpy3DPeerAsync cudaMemcpy3DPeerAsync_ptsz
    cudaMemcpy3DPeer_ptds cudaMemcpy3DWithAttributesAsync cudaMemcpy3DWithAttributesAsync_ptsz
    cudaMemcpyArrayToArray cudaMemcpyArrayToArray_ptds cudaMemcpyBatchAsync cudaMemcpyBatchAsync_ptsz
    cudaMemcpyPeerAsync
    cudaMemcpyWithAttributesAsync cudaMemcpyWithAttributesAsync_ptsz cudaMemset3D
    cudaMemset3DAsync cudaMemset3DAsync_ptsz cudaMemset3D_ptds cudaMipmappedArrayGetMemoryRequirements
    cudaMipmappedArrayGetSparseProperties cudaOccupancyMaxActiveClusters
    cudaOccupancyMaxPotentialClusterSize cudaProfilerInitialize cudaSetDoubleForDevice cudaSetDoubleForHost
    cudaSignalExternalSemaphoresAsync cudaSignalExternalSemaphoresAsync_ptsz
    cudaSignalExternalSemaphoresAsync_v2 cudaSignalExternalSemaphoresAsync_v2_ptsz
    cudaStreamAddCallback_ptsz cudaStreamBeginCaptureToGraph cudaStreamBeginCaptureToGraph_ptsz
    cudaStreamBeginRecaptureToGraph cudaStreamBeginRecaptureToGraph_ptsz cudaStreamCopyAttributes
    cudaStreamCopyAttributes_ptsz cudaStreamGetAttribute cudaStreamGetAttribute_ptsz
            cudaStreamGetDevResource cudaStreamGetDevResource_ptsz cudaStreamSetAttribute
    cudaStreamSetAttribute_ptsz cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_ptsz
    cudaStreamUpdateCaptureDependencies_v2 cudaStreamUpdateCaptureDependencies_v2_ptsz cudaSubgridCreate
    cudaSubgridWorkerGridCreate cudaSubgridWorksetCreate     cudaThreadGetCacheConfig cudaUserObjectCreate cudaUserObjectRelease
    cudaUserObjectRetain cudaVDPAUGetDevice cudaVDPAUSetVDPAUDevice cudaWaitExternalSemaphoresAsync
    cudaWaitExternalSemaphoresAsync_ptsz cudaWaitExternalSemaphoresAsync_v2
    cudaWaitExternalSemaphoresAsync_v2_ptsz
}
