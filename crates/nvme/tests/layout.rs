//! Field offsets against the byte numbers of the specification, and, where
//! libnvme's headers are installed, against its structures.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::mem::offset_of;
use std::process::Command;

use nvme::{
    AsynchronousEvent, ChangedZoneList, Cns, CommandEffectsLog, CommandSet, CompletionEntry, ConnectData,
    DatasetManagementRange, DiscoveryLogEntry, DiscoveryLogHeader, ErrorLogEntry, EventConfiguration, FabricsType,
    Feature, FeatureSelect, FirmwareSlotLog, HealthLog, IdentifyCommandSet, IdentifyController,
    IdentifyIndependentNamespace, IdentifyNamespace, IdentifyNvmController, IdentifyNvmNamespace,
    IdentifyZonedController, IdentifyZonedNamespace, IoOpcode, LbaFormat, LogPage, NamespaceDescriptors,
    PowerStateDescriptor, Property, SglDescriptor, Status, SubmissionEntry, SubsystemType, SupportedLogPages,
    TransportType, ZoneAttributes, ZoneDescriptor, ZoneFormat, ZoneReceiveAction, ZoneReportFilter, ZoneReportHeader,
    ZoneSendAction, ZoneState,
};

/// A field: its name in libnvme, our offset, and its first byte in the
/// specification's table.
type Field = (&'static str, usize, usize);

macro_rules! fields {
    ($structure:ty: $($field:ident $(as $theirs:literal)? = $byte:literal),* $(,)?) => {
        &[$((fields!(@name $field $($theirs)?), offset_of!($structure, $field), $byte)),*]
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $theirs:literal) => { $theirs };
}

/// Base figure 88.
const SUBMISSION_ENTRY: &[Field] = fields!(SubmissionEntry:
    opc as "opcode" = 0, flags = 1, cid as "command_id" = 2, nsid = 4, cdw2 = 8, cdw3 = 12, mptr as "metadata" = 16,
    dptr as "dptr" = 24, cdw10 = 40, cdw11 = 44, cdw12 = 48, cdw13 = 52, cdw14 = 56, cdw15 = 60);

/// Base figures 89 to 92.
const COMPLETION_ENTRY: &[Field] =
    fields!(CompletionEntry: dw0 = 0, dw1 = 4, sqhd = 8, sqid = 10, cid = 12, status = 14);

/// Base figure 117.
const SGL_DESCRIPTOR: &[Field] = fields!(SglDescriptor: address = 0, length = 8, sgl_identifier = 15);

/// NVM figure 44.
const DSM_RANGE: &[Field] =
    fields!(DatasetManagementRange: context_attributes as "cattr" = 0, length as "nlb" = 4, slba = 8);

/// Base figure 275.
const CONTROLLER: &[Field] = fields!(IdentifyController:
    vid = 0, ssvid = 2, sn = 4, mn = 24, fr = 64, rab = 72, ieee = 73, cmic = 76, mdts = 77, cntlid = 78, ver = 80,
    rtd3r = 84, rtd3e = 88, oaes = 92, ctratt = 96, rrls = 100, cntrltype = 111, fguid = 112, crdt1 = 128,
    crdt2 = 130, crdt3 = 132, nvmsr = 253, vwci = 254, mec = 255, oacs = 256, acl = 258, aerl = 259, frmw = 260,
    lpa = 261, elpe = 262, npss = 263, avscc = 264, apsta = 265, wctemp = 266, cctemp = 268, mtfa = 270, hmpre = 272,
    hmmin = 276, tnvmcap = 280, unvmcap = 296, rpmbs = 312, edstt = 316, dsto = 318, fwug = 319, kas = 320,
    hctma = 322, mntmt = 324, mxtmt = 326, sanicap = 328, hmminds = 332, hmmaxd = 336, nsetidmax = 338,
    endgidmax = 340, anatt = 342, anacap = 343, anagrpmax = 344, nanagrpid = 348, pels = 352, domainid = 356,
    megcap = 368, sqes = 512, cqes = 513, maxcmd = 514, nn = 516, oncs = 520, fuses = 522, fna = 524, vwc = 525,
    awun = 526, awupf = 528, icsvscc = 530, nwpc = 531, acwu = 532, cdfs as "ocfs" = 534, sgls = 536, mnan = 540,
    maxdna = 544, maxcna = 560, subnqn = 768, ioccsz = 1792, iorcsz = 1796, icdoff = 1800, fcatt = 1802,
    msdbd = 1803, ofcs = 1804, dctype = 1806, psd = 2048, vs = 3072);

/// Base figure 276.
const POWER_STATE: &[Field] = fields!(PowerStateDescriptor:
    mp = 0, flags = 3, enlat = 4, exlat = 8, rrt = 12, rrl = 13, rwt = 14, rwl = 15, idlp = 16, ips = 18, actp = 20,
    apws = 22);

/// NVM figure 97.
const NAMESPACE: &[Field] = fields!(IdentifyNamespace:
    nsze = 0, ncap = 8, nuse = 16, nsfeat = 24, nlbaf = 25, flbas = 26, mc = 27, dpc = 28, dps = 29, nmic = 30,
    rescap = 31, fpi = 32, dlfeat = 33, nawun = 34, nawupf = 36, nacwu = 38, nabsn = 40, nabo = 42, nabspf = 44,
    noiob = 46, nvmcap = 48, npwg = 64, npwa = 66, npdg = 68, npda = 70, nows = 72, mssrl = 74, mcl = 76, msrc = 80,
    anagrpid = 92, nsattr = 99, nvmsetid = 100, endgid = 102, nguid = 104, eui64 = 120, lbaf = 128, vs = 384);

/// NVM figure 98.
const LBA_FORMAT: &[Field] = fields!(LbaFormat: ms = 0, lbads as "ds" = 2, rp = 3);

/// ZNS figure 37.
const ZONE_DESCRIPTOR: &[Field] =
    fields!(ZoneDescriptor: zt = 0, zs = 1, za = 2, zai = 3, zcap = 8, zslba = 16, wp = 24);

/// ZNS figure 35.
const ZONE_REPORT: &[Field] = fields!(ZoneReportHeader: nr_zones = 0);

/// ZNS figure 46.
const CHANGED_ZONES: &[Field] = fields!(ChangedZoneList: nrzid = 0, zid = 8);

/// ZNS figure 48 and TP 4076.
const ZONED_NAMESPACE: &[Field] = fields!(IdentifyZonedNamespace:
    zoc = 0, ozcs = 2, mar = 4, mor = 8, rrl = 12, frl = 16, rrl1 = 20, rrl2 = 24, rrl3 = 28, frl1 = 32, frl2 = 36,
    frl3 = 40, numzrwa = 44, zrwafg = 48, zrwasz = 50, zrwacap = 52, lbafe = 2816, vs = 3840);

/// ZNS figure 49.
const ZONE_FORMAT: &[Field] = fields!(ZoneFormat: zsze = 0, zdes = 8);

/// ZNS figure 50.
const ZONED_CONTROLLER: &[Field] = fields!(IdentifyZonedController: zasl = 0);

/// Base figure 281.
const NAMESPACE_DESCRIPTOR: &[Field] = fields!(NamespaceDescriptors: nidt = 0, nidl = 1, nid = 4);

/// Base 5.17.2.21.
const COMMAND_SETS: &[Field] = fields!(IdentifyCommandSet: iocsc as "iocsc" = 0);

/// Base figure 381.
const CONNECT_DATA: &[Field] =
    fields!(ConnectData: hostid = 0, cntlid = 16, subnqn as "subsysnqn" = 256, hostnqn = 512);

/// Base figure 204.
const SUPPORTED_LOGS: &[Field] = fields!(SupportedLogPages: lid_support = 0);

/// Base figure 206.
const ERROR_ENTRY: &[Field] = fields!(ErrorLogEntry:
    error_count = 0, sqid = 8, cmdid = 10, status_field = 12, parm_error_location = 14, lba = 16, nsid = 24, vs = 28,
    trtype = 29, cs = 32, trtype_spec_info = 40);

/// Base figure 207.
const HEALTH: &[Field] = fields!(HealthLog:
    critical_warning = 0, temperature = 1, avail_spare = 3, spare_thresh = 4, percent_used = 5,
    endu_grp_crit_warn_sumry = 6, data_units_read = 32, data_units_written = 48, host_reads = 64, host_writes = 80,
    ctrl_busy_time = 96, power_cycles = 112, power_on_hours = 128, unsafe_shutdowns = 144, media_errors = 160,
    num_err_log_entries = 176, warning_temp_time = 192, critical_comp_time = 196, temp_sensor = 200,
    thm_temp1_trans_count = 216, thm_temp2_trans_count = 220, thm_temp1_total_time = 224, thm_temp2_total_time = 228);

/// Base figure 208.
const FIRMWARE: &[Field] = fields!(FirmwareSlotLog: afi = 0, frs = 8);

/// Base figure 209.
const EFFECTS: &[Field] = fields!(CommandEffectsLog: acs = 0, iocs = 1024);

/// Base figure 261.
const DISCOVERY: &[Field] = fields!(DiscoveryLogHeader: genctr = 0, numrec = 8, recfmt = 16);

/// Base figure 262.
const DISCOVERY_ENTRY: &[Field] = fields!(DiscoveryLogEntry:
    trtype = 0, adrfam = 1, subtype = 2, treq = 3, portid = 4, cntlid = 6, asqsz = 8, eflags = 10, trsvcid = 32,
    subnqn = 256, traddr = 512, tsas = 768);

/// NVM figure 100.
const NVM_NAMESPACE: &[Field] = fields!(IdentifyNvmNamespace: lbstm = 0, pic = 8, elbaf = 12);

/// NVM figure 102.
const NVM_CONTROLLER: &[Field] =
    fields!(IdentifyNvmController: vsl = 0, wzsl = 1, wusl = 2, dmrl = 3, dmrsl = 4, dmsl = 8);

/// Base figure 280.
const INDEPENDENT_NAMESPACE: &[Field] = fields!(IdentifyIndependentNamespace:
    nsfeat = 0, nmic = 1, rescap = 2, fpi = 3, anagrpid = 4, nsattr = 8, nvmsetid = 10, endgid = 12, nstat = 14);

#[test]
fn offsets_are_the_specifications() {
    for fields in [
        SUBMISSION_ENTRY,
        COMPLETION_ENTRY,
        SGL_DESCRIPTOR,
        DSM_RANGE,
        CONTROLLER,
        POWER_STATE,
        NAMESPACE,
        LBA_FORMAT,
        ZONE_DESCRIPTOR,
        ZONE_REPORT,
        CHANGED_ZONES,
        ZONED_NAMESPACE,
        ZONE_FORMAT,
        ZONED_CONTROLLER,
        NAMESPACE_DESCRIPTOR,
        COMMAND_SETS,
        CONNECT_DATA,
        SUPPORTED_LOGS,
        ERROR_ENTRY,
        HEALTH,
        FIRMWARE,
        EFFECTS,
        DISCOVERY,
        DISCOVERY_ENTRY,
        NVM_NAMESPACE,
        NVM_CONTROLLER,
        INDEPENDENT_NAMESPACE,
    ] {
        for (name, ours, byte) in fields {
            assert_eq!(ours, byte, "{name}");
        }
    }
}

/// Codes, by libnvme's names.
const CODES: &[(&str, u8)] = &[
    ("nvme_zns_cmd_mgmt_send", IoOpcode::ZoneManagementSend as u8),
    ("nvme_zns_cmd_mgmt_recv", IoOpcode::ZoneManagementReceive as u8),
    ("nvme_zns_cmd_append", IoOpcode::ZoneAppend as u8),
    ("NVME_ZNS_ZSA_CLOSE", ZoneSendAction::Close as u8),
    ("NVME_ZNS_ZSA_FINISH", ZoneSendAction::Finish as u8),
    ("NVME_ZNS_ZSA_OPEN", ZoneSendAction::Open as u8),
    ("NVME_ZNS_ZSA_RESET", ZoneSendAction::Reset as u8),
    ("NVME_ZNS_ZSA_OFFLINE", ZoneSendAction::Offline as u8),
    ("NVME_ZNS_ZSA_SET_DESC_EXT", ZoneSendAction::SetDescriptorExtension as u8),
    ("NVME_ZNS_ZSA_ZRWA_FLUSH", ZoneSendAction::FlushZrwa as u8),
    ("NVME_ZNS_ZRA_REPORT_ZONES", ZoneReceiveAction::Report as u8),
    ("NVME_ZNS_ZRA_EXTENDED_REPORT_ZONES", ZoneReceiveAction::ExtendedReport as u8),
    ("NVME_ZNS_ZRAS_REPORT_ALL", ZoneReportFilter::All as u8),
    ("NVME_ZNS_ZRAS_REPORT_EMPTY", ZoneReportFilter::Empty as u8),
    ("NVME_ZNS_ZRAS_REPORT_IMPL_OPENED", ZoneReportFilter::ImplicitlyOpened as u8),
    ("NVME_ZNS_ZRAS_REPORT_EXPL_OPENED", ZoneReportFilter::ExplicitlyOpened as u8),
    ("NVME_ZNS_ZRAS_REPORT_CLOSED", ZoneReportFilter::Closed as u8),
    ("NVME_ZNS_ZRAS_REPORT_FULL", ZoneReportFilter::Full as u8),
    ("NVME_ZNS_ZRAS_REPORT_READ_ONLY", ZoneReportFilter::ReadOnly as u8),
    ("NVME_ZNS_ZRAS_REPORT_OFFLINE", ZoneReportFilter::Offline as u8),
    ("NVME_ZNS_ZS_EMPTY", ZoneState::Empty as u8),
    ("NVME_ZNS_ZS_IMPL_OPEN", ZoneState::ImplicitlyOpened as u8),
    ("NVME_ZNS_ZS_EXPL_OPEN", ZoneState::ExplicitlyOpened as u8),
    ("NVME_ZNS_ZS_CLOSED", ZoneState::Closed as u8),
    ("NVME_ZNS_ZS_READ_ONLY", ZoneState::ReadOnly as u8),
    ("NVME_ZNS_ZS_FULL", ZoneState::Full as u8),
    ("NVME_ZNS_ZS_OFFLINE", ZoneState::Offline as u8),
    ("NVME_ZNS_ZA_ZFC", ZoneAttributes::FINISHED_BY_CONTROLLER.bits()),
    ("NVME_ZNS_ZA_FZR", ZoneAttributes::FINISH_RECOMMENDED.bits()),
    ("NVME_ZNS_ZA_RZR", ZoneAttributes::RESET_RECOMMENDED.bits()),
    ("NVME_ZNS_ZA_ZRWAV", ZoneAttributes::ZRWA_VALID.bits()),
    ("NVME_ZNS_ZA_ZDEV", ZoneAttributes::EXTENSION_VALID.bits()),
    ("NVME_SC_ZNS_INVALID_OP_REQUEST", Status::INVALID_ZONE_OPERATION_REQUEST.code),
    ("NVME_SC_ZNS_ZRWA_RESOURCES_UNAVAILABLE", Status::ZRWA_RESOURCES_UNAVAILABLE.code),
    ("NVME_SC_ZNS_BOUNDARY_ERROR", Status::ZONE_BOUNDARY_ERROR.code),
    ("NVME_SC_ZNS_FULL", Status::ZONE_IS_FULL.code),
    ("NVME_SC_ZNS_READ_ONLY", Status::ZONE_IS_READ_ONLY.code),
    ("NVME_SC_ZNS_OFFLINE", Status::ZONE_IS_OFFLINE.code),
    ("NVME_SC_ZNS_INVALID_WRITE", Status::ZONE_INVALID_WRITE.code),
    ("NVME_SC_ZNS_TOO_MANY_ACTIVE", Status::TOO_MANY_ACTIVE_ZONES.code),
    ("NVME_SC_ZNS_TOO_MANY_OPENS", Status::TOO_MANY_OPEN_ZONES.code),
    ("NVME_SC_ZNS_INVAL_TRANSITION", Status::INVALID_ZONE_STATE_TRANSITION.code),
    ("NVME_LOG_LID_ZNS_CHANGED_ZONES", ChangedZoneList::LOG_IDENTIFIER),
    ("NVME_CSI_ZNS", CommandSet::Zoned as u8),
    ("NVME_IDENTIFY_CNS_CSI_NS", Cns::CommandSetNamespace as u8),
    ("NVME_IDENTIFY_CNS_CSI_CTRL", Cns::CommandSetController as u8),
    ("NVME_IDENTIFY_CNS_COMMAND_SET_STRUCTURE", Cns::CommandSet as u8),
    ("nvme_fabrics_type_property_set", FabricsType::PropertySet as u8),
    ("nvme_fabrics_type_connect", FabricsType::Connect as u8),
    ("nvme_fabrics_type_property_get", FabricsType::PropertyGet as u8),
    ("nvme_fabrics_type_auth_send", FabricsType::AuthenticationSend as u8),
    ("nvme_fabrics_type_auth_receive", FabricsType::AuthenticationReceive as u8),
    ("nvme_fabrics_type_disconnect", FabricsType::Disconnect as u8),
    ("NVME_REG_CAP", Property::Capabilities as u8),
    ("NVME_REG_VS", Property::Version as u8),
    ("NVME_REG_CC", Property::Configuration as u8),
    ("NVME_REG_CSTS", Property::Status as u8),
    ("NVME_REG_NSSR", Property::SubsystemReset as u8),
    ("NVME_REG_CRTO", Property::ReadyTimeouts as u8),
    ("NVME_FEAT_FID_ARBITRATION", Feature::Arbitration as u8),
    ("NVME_FEAT_FID_POWER_MGMT", Feature::PowerManagement as u8),
    ("NVME_FEAT_FID_LBA_RANGE", Feature::LbaRangeType as u8),
    ("NVME_FEAT_FID_TEMP_THRESH", Feature::TemperatureThreshold as u8),
    ("NVME_FEAT_FID_ERR_RECOVERY", Feature::ErrorRecovery as u8),
    ("NVME_FEAT_FID_VOLATILE_WC", Feature::VolatileWriteCache as u8),
    ("NVME_FEAT_FID_NUM_QUEUES", Feature::NumberOfQueues as u8),
    ("NVME_FEAT_FID_IRQ_COALESCE", Feature::InterruptCoalescing as u8),
    ("NVME_FEAT_FID_IRQ_CONFIG", Feature::InterruptVectorConfiguration as u8),
    ("NVME_FEAT_FID_WRITE_ATOMIC", Feature::WriteAtomicity as u8),
    ("NVME_FEAT_FID_ASYNC_EVENT", Feature::AsynchronousEventConfiguration as u8),
    ("NVME_FEAT_FID_AUTO_PST", Feature::AutonomousPowerStateTransition as u8),
    ("NVME_FEAT_FID_TIMESTAMP", Feature::Timestamp as u8),
    ("NVME_FEAT_FID_KATO", Feature::KeepAliveTimer as u8),
    ("NVME_FEAT_FID_HOST_BEHAVIOR", Feature::HostBehaviorSupport as u8),
    ("NVME_FEAT_FID_IOCS_PROFILE", Feature::CommandSetProfile as u8),
    ("NVME_FEAT_FID_HOST_ID", Feature::HostIdentifier as u8),
    ("NVME_FEAT_FID_WRITE_PROTECT", Feature::WriteProtection as u8),
    ("NVME_GET_FEATURES_SEL_CURRENT", FeatureSelect::Current as u8),
    ("NVME_GET_FEATURES_SEL_DEFAULT", FeatureSelect::Default as u8),
    ("NVME_GET_FEATURES_SEL_SAVED", FeatureSelect::Saved as u8),
    ("NVME_GET_FEATURES_SEL_SUPPORTED", FeatureSelect::Supported as u8),
    ("NVME_LOG_LID_SUPPORTED_LOG_PAGES", LogPage::SupportedLogPages as u8),
    ("NVME_LOG_LID_ERROR", LogPage::ErrorInformation as u8),
    ("NVME_LOG_LID_SMART", LogPage::Health as u8),
    ("NVME_LOG_LID_FW_SLOT", LogPage::FirmwareSlot as u8),
    ("NVME_LOG_LID_CHANGED_NS", LogPage::ChangedNamespaceList as u8),
    ("NVME_LOG_LID_CMD_EFFECTS", LogPage::CommandsSupportedAndEffects as u8),
    ("NVME_LOG_LID_FID_SUPPORTED_EFFECTS", LogPage::FeatureIdentifiers as u8),
    ("NVME_LOG_LID_DISCOVER", LogPage::Discovery as u8),
    ("NVME_LOG_LID_ZNS_CHANGED_ZONES", LogPage::ChangedZoneList as u8),
    ("NVMF_TRTYPE_TCP", TransportType::Tcp as u8),
    ("NVME_NQN_DISC", SubsystemType::Referral as u8),
    ("NVME_NQN_NVME", SubsystemType::Nvm as u8),
    ("NVME_NQN_CURR", SubsystemType::CurrentDiscovery as u8),
    ("NVME_AER_ERROR_PERSISTENT_INTERNAL_ERROR", AsynchronousEvent::PERSISTENT_INTERNAL_ERROR.information),
    ("NVME_AER_SMART_SUBSYSTEM_RELIABILITY", AsynchronousEvent::RELIABILITY.information),
    ("NVME_AER_SMART_TEMPERATURE_THRESHOLD", AsynchronousEvent::TEMPERATURE.information),
    ("NVME_AER_SMART_SPARE_THRESHOLD", AsynchronousEvent::SPARE.information),
    ("NVME_AER_NOTICE", AsynchronousEvent::NAMESPACE_CHANGED.kind),
    ("NVME_AER_SMART", AsynchronousEvent::SPARE.kind),
    ("NVME_AER_ERROR", AsynchronousEvent::PERSISTENT_INTERNAL_ERROR.kind),
    ("NVME_AER_NOTICE_NS_CHANGED", AsynchronousEvent::NAMESPACE_CHANGED.information),
    ("NVME_AER_NOTICE_DISC_CHANGED", AsynchronousEvent::DISCOVERY_CHANGED.information),
    ("NVME_CTRL_OAES_NA >> 8", (EventConfiguration::NAMESPACE_ATTRIBUTE.bits() >> 8) as u8),
    ("NVME_CTRL_OAES_ZD >> 24", (EventConfiguration::ZONE_DESCRIPTOR.bits() >> 24) as u8),
    ("(NVME_CTRL_OAES_DL >> 24) & 0xff", (EventConfiguration::DISCOVERY_LOG.bits() >> 24) as u8),
    ("NVME_SC_CONNECT_FORMAT", Status::CONNECT_INCOMPATIBLE_FORMAT.code),
    ("NVME_SC_CONNECT_CTRL_BUSY", Status::CONNECT_CONTROLLER_BUSY.code),
    ("NVME_SC_CONNECT_INVALID_PARAM", Status::CONNECT_INVALID_PARAMETERS.code),
    ("NVME_SC_CONNECT_RESTART_DISC", Status::CONNECT_RESTART_DISCOVERY.code),
    ("NVME_SC_CONNECT_INVALID_HOST", Status::CONNECT_INVALID_HOST.code),
    ("NVME_SC_DISCONNECT_INVALID_QTYPE", Status::INVALID_QUEUE_TYPE.code),
    ("NVME_SC_DISCOVERY_RESTART", Status::DISCOVER_RESTART.code),
    ("NVME_SC_AUTH_REQUIRED", Status::AUTHENTICATION_REQUIRED.code),
    ("NVME_SC_IOCS_NOT_SUPPORTED", Status::COMMAND_SET_NOT_SUPPORTED.code),
    ("NVME_SC_IOCS_NOT_ENABLED", Status::COMMAND_SET_NOT_ENABLED.code),
    ("NVME_SC_IOCS_COMBINATION_REJECTED", Status::COMMAND_SET_COMBINATION_REJECTED.code),
    ("NVME_SC_INVALID_IOCS", Status::INVALID_COMMAND_SET.code),
    ("NVME_IDENTIFY_CNS_CSI_INDEPENDENT_ID_NS", Cns::IndependentNamespace as u8),
];

/// The same tables against structures that others wrote.
#[test]
fn offsets_are_libnvmes() {
    let mut program =
        String::from("#include <stddef.h>\n#include <stdio.h>\n#include <nvme/types.h>\nint main(void) {\n");
    let mut expected = String::new();
    for (structure, fields) in [
        ("nvme_id_ctrl", CONTROLLER),
        ("nvme_id_psd", POWER_STATE),
        ("nvme_id_ns", NAMESPACE),
        ("nvme_lbaf", LBA_FORMAT),
        ("nvme_dsm_range", DSM_RANGE),
        ("nvme_zns_desc", ZONE_DESCRIPTOR),
        ("nvme_zone_report", ZONE_REPORT),
        ("nvme_zns_changed_zone_log", CHANGED_ZONES),
        ("nvme_zns_id_ns", ZONED_NAMESPACE),
        ("nvme_zns_lbafe", ZONE_FORMAT),
        ("nvme_zns_id_ctrl", ZONED_CONTROLLER),
        ("nvme_ns_id_desc", NAMESPACE_DESCRIPTOR),
        ("nvme_id_iocs", COMMAND_SETS),
        ("nvmf_connect_data", CONNECT_DATA),
        ("nvme_supported_log_pages", SUPPORTED_LOGS),
        ("nvme_error_log_page", ERROR_ENTRY),
        ("nvme_smart_log", HEALTH),
        ("nvme_firmware_slot", FIRMWARE),
        ("nvme_cmd_effects_log", EFFECTS),
        ("nvmf_discovery_log", DISCOVERY),
        ("nvmf_disc_log_entry", DISCOVERY_ENTRY),
        ("nvme_nvm_id_ns", NVM_NAMESPACE),
        ("nvme_id_ctrl_nvm", NVM_CONTROLLER),
        ("nvme_id_independent_id_ns", INDEPENDENT_NAMESPACE),
    ] {
        // libnvme keeps LBSTM, of a later structure, where 1.0c has `vs` begin.
        for (name, ours, _) in fields.iter().filter(|field| structure != "nvme_id_ns" || field.0 != "vs") {
            writeln!(program, "printf(\"{structure} {name} %zu\\n\", offsetof(struct {structure}, {name}));").unwrap();
            writeln!(expected, "{structure} {name} {ours}").unwrap();
        }
    }
    for (theirs, ours) in CODES {
        writeln!(program, "printf(\"{theirs} %d\\n\", (int){theirs});").unwrap();
        writeln!(expected, "{theirs} {ours}").unwrap();
    }
    program.push_str("return 0; }\n");

    let dir = tempfile::tempdir().unwrap();
    let (source, binary) = (dir.path().join("layout.c"), dir.path().join("layout"));
    std::fs::write(&source, "#include <nvme/types.h>\nint x;\n").unwrap();
    let compile = |arguments: &[&str]| Command::new("cc").args(arguments).arg(&source).output();
    if !compile(&["-fsyntax-only"]).is_ok_and(|output| output.status.success()) {
        println!("skipped: libnvme-dev or a C compiler is not installed");
        return;
    }
    std::fs::write(&source, program).unwrap();
    let output = compile(&["-o", binary.to_str().unwrap()]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&binary).output().unwrap();
    for (theirs, ours) in String::from_utf8(output.stdout).unwrap().lines().zip(expected.lines()) {
        assert_eq!(theirs, ours);
    }
}
